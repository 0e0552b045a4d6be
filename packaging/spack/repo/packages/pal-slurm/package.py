# Spack's recipe: pald, palctl and pal-probe, and the SPANK plugin for the Slurm that Spack knows.
#
#     spack repo add packaging/spack/repo && spack install pal-slurm
#
# Until a release is on an index, the source is a checkout: spack dev-build -d . pal-slurm@main

from spack.package import *


class PalSlurm(PythonPackage):
    """Places pending Slurm GPU jobs on the GPUs that suit them: identical GPUs are not identical, and pald knows how
    fast each one is. Runs beside an unmodified slurmctld."""

    homepage = "https://pal-slurm.invalid/"
    git = "https://pal-slurm.invalid/pal-slurm.git"

    license("MIT")

    version("main", branch="main")

    variant("report", default=True, description="palctl report --html and plots")
    variant("page", default=False, description="pal-page, live in a browser")
    variant("postgresql", default=False, description="The database may be PostgreSQL")
    variant("mariadb", default=False, description="The database may be MariaDB")
    variant("probe", default=True, description="pal-probe can ask NVIDIA's driver")
    variant("spank", default=False, description="The SPANK plugin, for the Slurm of this installation")

    depends_on("c", type="build", when="+spank")
    depends_on("gmake", type="build", when="+spank")
    depends_on("slurm@22-05:", type=("build", "link"), when="+spank")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-hatchling@1.25:", type="build")

    # The build imports the programs, to write their man pages and completions.
    with default_args(type=("build", "run")):
        depends_on("py-click@8.1:")
        depends_on("py-numpy@1.26:")
        depends_on("py-pyyaml@6:")
        depends_on("py-msgspec@0.18.6:")
    with default_args(type="run"):
        depends_on("py-sqlalchemy@2.0.30:")
        depends_on("py-alembic@1.13.3:")
        depends_on("py-clustershell@1.9:")
        depends_on("py-rich@13.7:")
        depends_on("py-prometheus-client@0.20:")
        depends_on("py-highspy@1.7:")
        depends_on("py-jinja2@3.1:", when="+report")
        depends_on("py-matplotlib@3.8:", when="+report")
        depends_on("py-starlette@0.40:", when="+page")
        depends_on("py-uvicorn@0.30:", when="+page")
        depends_on("py-jinja2@3.1:", when="+page")
        depends_on("py-psycopg@3.1:", when="+postgresql")
        depends_on("py-pymysql@1.1:", when="+mariadb")
        depends_on("py-nvidia-ml-py@12.535:", when="+probe")

    @run_after("install", when="+spank")
    def install_plugin(self):
        """Where plugstack.conf can name it: PREFIX/lib/slurm/pal.so."""
        make(
            "-C",
            "spank",
            f"OUT={self.stage.path}/spank",
            f"prefix={self.prefix}",
            f"sysconfdir={self.prefix.share}/pal-slurm-spank",
            f"CPPFLAGS=-I{self.spec['slurm'].prefix.include}",
            "install",
        )
