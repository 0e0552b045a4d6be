"""NVIDIA's devices. In: libnvidia-ml through nvidia-ml-py (`import pynvml`). Out: Devices and Samples.

What a card, driver or permission does not offer is None. What says that the card is gone is DeviceLost.
GPM (Hopper and later) tells the share of SMs, DRAM and tensor units at work between two samples.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any, TypeVar

from pal_slurm.probe.devices import Sample
from pal_slurm.probe.document import Device
from pal_slurm.probe.errors import DeviceLost, NoDevices, NotOurs
from pal_slurm.probe.words import plain

T = TypeVar("T")

REASONS = {
    0x001: "idle",
    0x002: "applications_clocks",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal",
    0x040: "hw_thermal",
    0x080: "hw_power_brake",
    0x100: "display_clocks",
}


def open(_argument: str) -> Nvml:
    return Nvml()


class Nvml:
    runs_on = "cuda"

    def __init__(self) -> None:
        try:
            import pynvml
        except ImportError as error:
            raise NoDevices("NVML can't be asked: pip install nvidia-ml-py on the compute nodes") from error
        self._nvml: Any = pynvml
        # Errors that mean "this card does not offer it"; all others mean that the card is in trouble
        self._absent = {
            pynvml.NVML_ERROR_NOT_SUPPORTED,
            pynvml.NVML_ERROR_NO_PERMISSION,
            pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            pynvml.NVML_ERROR_NOT_FOUND,
            pynvml.NVML_ERROR_INVALID_ARGUMENT,
            pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
            pynvml.NVML_ERROR_DEPRECATED,
        }
        try:
            pynvml.nvmlInit()
            self._driver = self._text(pynvml.nvmlSystemGetDriverVersion())
        except pynvml.NVMLError as error:
            raise NoDevices(f"NVML can't be asked: {error}; is the NVIDIA driver loaded on this node?") from error
        self._node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
        self._handles: dict[int, Any] = {}
        self._gpm: dict[int, tuple[Any, Any] | None] = {}

    def close(self) -> None:
        for pair in self._gpm.values():
            for sample in pair or ():
                self._nvml.nvmlGpmSampleFree(sample)
        self._nvml.nvmlShutdown()

    def count(self) -> int:
        try:
            return int(self._nvml.nvmlDeviceGetCount())
        except self._nvml.NVMLError as error:
            raise NoDevices(f"NVML does not tell how many devices there are: {error}") from error

    def device(self, index: int) -> Device:
        nvml, handle = self._nvml, self._handle(index)
        pages = [
            self._ask(nvml.nvmlDeviceGetRetiredPages, handle, cause)
            for cause in (
                nvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
                nvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
            )
        ]
        rows = self._ask(nvml.nvmlDeviceGetRemappedRows, handle)
        pages_pending = self._ask(nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        mig, ecc = self._ask(nvml.nvmlDeviceGetMigMode, handle), self._ask(nvml.nvmlDeviceGetEccMode, handle)
        cap = self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        default_cap = self._ask(nvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)
        pci = self._ask(nvml.nvmlDeviceGetPciInfo, handle)
        counters = [
            self._ask(nvml.nvmlDeviceGetTotalEccErrors, handle, kind, nvml.NVML_AGGREGATE_ECC)
            for kind in (nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
        ]
        pending = [bool(p) for p in (pages_pending, rows[2] if rows else None) if p is not None]
        return Device(
            uuid=self._text(self._must(index, nvml.nvmlDeviceGetUUID, handle)),
            node=self._node,
            slot=self._ask(nvml.nvmlDeviceGetMinorNumber, handle),
            model=self._text(self._must(index, nvml.nvmlDeviceGetName, handle)),
            source="nvml",
            serial=self._text_or_none(self._ask(nvml.nvmlDeviceGetSerial, handle)),
            pci=None if pci is None else self._text(pci.busId),
            driver=self._driver,
            memory_mib=None if memory is None else int(memory.total) >> 20,
            power_cap_w=None if cap is None else cap / 1000,
            power_cap_default_w=None if default_cap is None else default_cap / 1000,
            mig=None if mig is None else bool(mig[0]),
            ecc=None if ecc is None else bool(ecc[0]),
            ecc_corrected=counters[0],
            ecc_uncorrected=counters[1],
            retired_pages=None if None in pages else sum(len(found) for found in pages if found),
            remapped_rows=None if rows is None else rows[0] + rows[1],
            repair_pending=any(pending) if pending else None,
            reasons=self._reasons(handle),
        )

    def sample(self, index: int) -> Sample:
        nvml, handle = self._nvml, self._handle(index)
        power = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        used = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        processes = self._ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        active = self._gpm_shares(index)
        return Sample(
            sm_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            mem_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            power_w=None if power is None else power / 1000,
            temperature_c=self._ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            util_compute=None if used is None else used.gpu / 100,
            util_memory=None if used is None else used.memory / 100,
            sm_active=active[0],
            dram_active=active[1],
            tensor_active=active[2],
            reasons=self._reasons(handle),
            pids=None if processes is None else tuple(int(process.pid) for process in processes),
        )

    def _handle(self, index: int) -> Any:
        if index not in self._handles:
            self._handles[index] = self._must(index, self._nvml.nvmlDeviceGetHandleByIndex, index)
        return self._handles[index]

    def _must(self, index: int, ask: Callable[..., T], *arguments: Any) -> T:
        try:
            return ask(*arguments)
        except self._nvml.NVMLError as error:
            if error.value == self._nvml.NVML_ERROR_NO_PERMISSION:
                raise NotOurs(f"NVML device {index} was given to somebody else") from error
            raise DeviceLost(f"NVML device {index} does not answer: {error}") from error

    def _ask(self, ask: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return ask(*arguments)
        except self._nvml.NVMLError as error:
            if error.value in self._absent:
                return None
            name = getattr(ask, "__name__", "a question")
            raise DeviceLost(f"NVML answers {error} to {name}; the card needs a reset or a look") from error

    def _reasons(self, handle: Any) -> tuple[str, ...]:
        mask = self._ask(self._nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
        if mask is None:  # drivers before 535 know the old name only
            mask = self._ask(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        known = tuple(name for bit, name in REASONS.items() if (mask or 0) & bit)
        return (*known, "other") if (mask or 0) & ~sum(REASONS) else known

    def _gpm_shares(self, index: int) -> tuple[float | None, float | None, float | None]:
        """Shares since the sample before; the first sample has nothing to compare with."""
        nvml, handle = self._nvml, self._handle(index)
        if index not in self._gpm:
            self._gpm[index] = self._gpm_begin(handle)
            return None, None, None
        pair = self._gpm[index]
        if pair is None:
            return None, None, None
        before, after = pair
        self._gpm[index] = (after, before)  # two buffers take turns
        if self._ask(nvml.nvmlGpmSampleGet, handle, after) is None:
            return None, None, None
        wanted = (nvml.NVML_GPM_METRIC_SM_UTIL, nvml.NVML_GPM_METRIC_DRAM_BW_UTIL, nvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL)
        question = nvml.c_nvmlGpmMetricsGet_t()
        question.version, question.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(wanted)
        question.sample1, question.sample2 = before, after
        for i, metric in enumerate(wanted):
            question.metrics[i].metricId = metric
        if self._ask(nvml.nvmlGpmMetricsGet, question) is None:
            return None, None, None
        answers = [question.metrics[i] for i in range(len(wanted))]
        shares = [min(1.0, max(0.0, a.value / 100)) if a.nvmlReturn == nvml.NVML_SUCCESS else None for a in answers]
        return shares[0], shares[1], shares[2]

    def _gpm_begin(self, handle: Any) -> tuple[Any, Any] | None:
        nvml = self._nvml
        support = self._ask(nvml.nvmlGpmQueryDeviceSupport, handle)
        if support is None or not support.isSupportedDevice:
            return None
        first, second = self._ask(nvml.nvmlGpmSampleAlloc), self._ask(nvml.nvmlGpmSampleAlloc)
        if first is None or second is None or self._ask(nvml.nvmlGpmSampleGet, handle, first) is None:
            return None
        return first, second

    @staticmethod
    def _text(value: bytes | str) -> str:
        return plain(value.decode("utf-8", "replace") if isinstance(value, bytes) else value, 64)

    def _text_or_none(self, value: bytes | str | None) -> str | None:
        return None if value is None else self._text(value)
