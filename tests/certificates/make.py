"""Makes the certificates of the tests; needs the package `cryptography`. Run it in this directory."""
import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def make(file, common_name, names, years, organization=None, authority=False):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = [x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)]
    if organization:
        subject.append(x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, organization))
    subject = x509.Name(subject)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime(years[0], 1, 1))
        .not_valid_after(datetime.datetime(years[1], 1, 1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    open(f"{file}.pem", "wb").write(certificate.public_bytes(pem))
    plain = serialization.NoEncryption()
    open(f"{file}.key", "wb").write(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))


loopback = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
make("server", "server", loopback, (2020, 2120))
make("other", "other", loopback, (2020, 2120))
# The bytes of the identifier of subject alternative names, in a place where they mean nothing.
odd = "\u0006\u0003U\u001d\u0011"
make("named", "common.example", [x509.DNSName("a.example")], (2020, 2030), odd, authority=True)
make("unnamed", "common.example", [], (2020, 2030), odd, authority=True)
