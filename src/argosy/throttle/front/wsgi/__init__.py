"""The front doors of WSGI applications."""

from argosy.throttle.front.wsgi.client import BlockingLimiter
from argosy.throttle.front.wsgi.http import ImmediateLimiter, WsgiFairAdmission, WsgiLimitAdmission

__all__ = ["BlockingLimiter", "ImmediateLimiter", "WsgiFairAdmission", "WsgiLimitAdmission"]
