"""Examples may take as long as a busy machine makes them: a property is about what holds, not how fast."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
