"""A certificate authority for tests, which signs certificates for the loopback address."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"
LIFE = timedelta(hours=1)
_CRITICAL = (x509.BasicConstraints, x509.KeyUsage)
_CA_USAGE = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """Signs certificates for the loopback address."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name_of(name)
        usage = [x509.BasicConstraints(ca=True, path_length=0), _CA_USAGE]
        self._certificate = _certificate(self._name, self._name, self._key.public_key(), usage, self._key)

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(Encoding.PEM)

    def issue_certificate(self) -> tuple[bytes, bytes]:
        """A new certificate and its key, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        address = x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))])
        certificate = _certificate(_name_of("argosy"), self._name, key.public_key(), [address], self._key)
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return certificate.public_bytes(Encoding.PEM), secret


def _name_of(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    extensions: Sequence[x509.ExtensionType],
    signing: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    """Valid by RFC 5280, with the identifiers of both keys: Python's default context checks that from 3.13 on."""
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - LIFE).not_valid_after(now + LIFE)
    identifiers = [
        x509.SubjectKeyIdentifier.from_public_key(key),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()),
    ]
    for extension in [*extensions, *identifiers]:
        builder = builder.add_extension(extension, critical=isinstance(extension, _CRITICAL))
    return builder.sign(signing, hashes.SHA256())
