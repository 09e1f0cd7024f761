"""An authority made for the occasion, which signs certificates for this machine's loopback address."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"
LIFE = timedelta(hours=1)


class Authority:
    """Signs certificates for this machine's loopback address."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        usage = x509.BasicConstraints(ca=True, path_length=0)
        self._certificate = _certificate(self._name, self._name, self._key.public_key(), usage, self._key)

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(Encoding.PEM)

    def signed(self) -> tuple[bytes, bytes]:
        """A server's certificate and its key, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        address = x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))])
        certificate = _certificate(_named("argosy"), self._name, key.public_key(), address, self._key)
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return certificate.public_bytes(Encoding.PEM), secret


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    extension: x509.ExtensionType,
    signing: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - LIFE).not_valid_after(now + LIFE)
    return builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints)).sign(
        signing, hashes.SHA256()
    )
