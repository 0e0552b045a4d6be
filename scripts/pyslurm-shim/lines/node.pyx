    @property
    def gres_text(self):
        return cstr.to_unicode(self.info.gres)

    @property
    def gres_used(self):
        return cstr.to_unicode(self.info.gres_used)

    @property
    def features_text(self):
        return cstr.to_unicode(self.info.features_act)

