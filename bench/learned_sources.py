"""C of many kinds from which to learn what gcc's options usually do to time, size and executed instructions.

No race of race_open.py is on any of these files: what is learned here is tried there. Our own kernels are also of other
kinds than those; some transfer kernels are not (a checksum, a recursive filter, a matrix product, hashing).
"""

from collections.abc import Iterator
from pathlib import Path

from race_build import BENCH, Source
from race_open import BROTLI, ZOPFLI
from race_sources import Distribution

HOME = BENCH / "learned_kernels"
TRANSFER = BENCH / "transfer_kernels"
PYCRYPTODOME = Distribution("pycryptodome==3.21.0", "f7787e0d469bdae763b876174cf2e6c0f7be79808af26b1da96f1a64bcf47297")
WEBRTCVAD = Distribution("webrtcvad==2.0.10", "f1bed2fb25b63fb7b1a55d64090c993c9c9167b28485ae0bcdd81cf6ede96aea")
LZFSE = Distribution("pyliblzfse==0.4.1", "bb0b899b3830c02fdf3dbde48ea59611833f366fef836e5c32cf8145134b7d3d")
CONFIGURED = ("-DHAVE_STDINT_H", "-DHAVE_POSIX_MEMALIGN", "-DPYCRYPTO_LITTLE_ENDIAN", "-DSYS_BITS=64")
SHORT = frozenset({"floats_gather", "floats_hashing", "floats_sorting", "floats_varints"})


def sources() -> Iterator[Source]:
    """Sources with drivers, which can be timed and their instructions counted."""
    yield from own()
    yield from transfer()
    yield from pycryptodome()
    yield from others()


def unrun() -> Iterator[Source]:
    """Files of others that nothing runs: what is learned of them is their code's size."""
    home = PYCRYPTODOME.folder / "src"
    files = ("MD4", "SHA1", "ARC2", "blowfish", "curve448", "ed448", "modexp_utils", "raw_cfb", "raw_ctr", "raw_ocb")
    for file in files:
        yield Source(f"pycryptodome_{file.lower()}", home / f"{file}.c", flags=(*CONFIGURED, f"-I{home}"))
    audio, webrtc = _webrtc(), f"-I{WEBRTCVAD.folder / 'cbits'}"
    yield Source("webrtc_fft", audio / "signal_processing" / "complex_fft.c", flags=(webrtc,))
    yield Source("webrtc_scaling", audio / "signal_processing" / "vector_scaling_operations.c", flags=(webrtc,))
    yield Source("webrtc_core", audio / "vad" / "vad_core.c", flags=(webrtc,))
    yield Source("webrtc_filterbank", audio / "vad" / "vad_filterbank.c", flags=(webrtc,))
    brotli = BROTLI.folder / "c"
    for file in ("entropy_encode", "literal_cost"):
        yield Source(f"brotli_{file}", brotli / "enc" / f"{file}.c", flags=(f"-I{brotli / 'include'}",))


def own() -> Iterator[Source]:
    """Kernels of our own, each with its driver."""
    for path in sorted(HOME.glob("*.c")):
        if not path.stem.endswith("_driver"):
            yield Source(path.stem, path, path)


def transfer() -> Iterator[Source]:
    """The kernels of bench/transfer.py, which share a driver."""
    for path in sorted(TRANSFER.glob("*.c")):
        name = f"floats_{path.stem}"
        yield Source(name, path, HOME / "floats_driver.c", (f"-DTURNS={16 if name in SHORT else 4}",))


def pycryptodome() -> Iterator[Source]:
    """Hash functions, ciphers and codes."""
    yield _hash("keccak", "keccak.c", "keccak_state", "keccak_init(&started, 64, 24)", "keccak_absorb")
    yield _hash("blake2s", "blake2s.c", "hash_state", 'blake2s_init(&started, (uint8_t *)"", 0, 32)', "blake2s_update")
    yield _hash("md2", "MD2.c", "hash_state", "md2_init(&started)", "md2_update", "-DWHOLE=600", "-DSMALL=32")
    yield _hash("md5", "MD5.c", "hash_state", "MD5_init(&started)", "MD5_update")
    yield _hash("ripemd160", "RIPEMD160.c", "hash_state", "ripemd160_init(&started)", "ripemd160_update")
    yield _stream("arc4", "ARC4", "ARC4_stream_init(key, 32, &started)")
    yield _block_cipher("cast", "CAST", 16)
    yield _block_cipher("des", "DES", 8)
    yield _pycryptodome("ghash", "ghash_portable.c", "pycryptodome_ghash")
    yield _pycryptodome("pkcs1", "pkcs1_decode.c", "pycryptodome_pkcs1")
    yield _pycryptodome("siphash", "siphash.c", "pycryptodome_siphash")


def others() -> Iterator[Source]:
    """Signals, and parts of compressors."""
    audio, webrtc = _webrtc(), f"-I{WEBRTCVAD.folder / 'cbits'}"
    yield _driven("webrtc_lowpass", audio / "signal_processing" / "resample_by_2_internal.c", webrtc)
    yield _driven("webrtc_resample", audio / "signal_processing" / "resample_fractional.c", webrtc)
    yield _driven("webrtc_minimum", audio / "vad" / "vad_sp.c", webrtc)
    yield _driven("zopfli_hash", ZOPFLI.folder / "zopfli" / "src" / "zopfli" / "hash.c")
    yield _driven("lzfse_frequencies", LZFSE.folder / "lzfse" / "src" / "lzfse_fse.c")
    yield _driven("lzfse_lzvn", LZFSE.folder / "lzfse" / "src" / "lzvn_decode_base.c")


def _hash(name: str, file: str, state: str, start: str, update: str, *flags: str) -> Source:
    named = (f'-DHASHED="{file}"', f"-DSTATE={state}", f"-DSTART={start}", f"-DUPDATE={update}")
    return _pycryptodome(name, file, "hash_update", *named, *flags)


def _stream(name: str, cipher: str, start: str) -> Source:
    named = (f'-DSTREAMED="{cipher}.c"', f"-DCIPHER={cipher}", f"-DSTART={start}")
    return _pycryptodome(name, f"{cipher}.c", "stream", *named)


def _block_cipher(name: str, cipher: str, key_bytes: int) -> Source:
    named = (f"-DSTART={cipher}_start_operation", f"-DKEY_BYTES={key_bytes}")
    return _pycryptodome(name, f"{cipher}.c", "block_cipher", *named)


def _pycryptodome(name: str, file: str, driver: str, *flags: str) -> Source:
    home = PYCRYPTODOME.folder / "src"
    flags = (*CONFIGURED, *flags, f"-I{home}", f"-I{home / 'libtom'}")
    return Source(f"pycryptodome_{name}", home / file, HOME / f"{driver}_driver.c", flags)


def _driven(name: str, path: Path, *flags: str) -> Source:
    return Source(name, path, HOME / f"{name}_driver.c", (*flags, f"-I{path.parent}"))


def _webrtc() -> Path:
    return WEBRTCVAD.folder / "cbits" / "webrtc" / "common_audio"


def is_counted(source: Source) -> bool:
    """Whether a small call ends before race_serve's limit while each instruction is counted, with any of gcc_space.

    Most of the transfer kernels, which know no small call, take too long.
    """
    return source.name in SHORT or not source.name.startswith("floats_")
