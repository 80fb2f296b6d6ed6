#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/address.hpp"
#include "tenzro/crypto/blake3.hpp"
#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/crypto/hmac.hpp"
#include "tenzro/crypto/sha256.hpp"

namespace tenzro::crypto {
namespace {

std::vector<std::uint8_t> from_hex(std::string_view hex) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(
        static_cast<std::uint8_t>(std::stoul(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

/// The input of BLAKE3's published test vectors: 0, 1, ..., 250, 0, 1, ...
std::vector<std::uint8_t> counting(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i % 251);
  return bytes;
}

TEST(Sha256, MatchesTheStandardsExamples) {
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(to_hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  const std::vector<std::uint8_t> bytes = counting(300);
  for (std::size_t cut = 0; cut <= bytes.size(); cut += 7) {
    Sha256 hasher;
    hasher.update(std::span(bytes).first(cut)).update(std::span(bytes).subspan(cut));
    EXPECT_EQ(hasher.finish(), sha256(bytes)) << cut;
  }
}

TEST(Sha256, StartsAfreshAfterFinish) {
  Sha256 hasher;
  EXPECT_EQ(hasher.update("first").finish(), sha256("first"));
  EXPECT_EQ(hasher.update("abc").finish(), sha256("abc"));
}

TEST(Sha256, WritesIntegersLittleEndian) {
  Sha256 hasher;
  EXPECT_EQ(hasher.update_u32(0x64636261U).finish(), sha256("abcd"));
}

struct Blake3Case {
  std::size_t size;
  const char* hex;
};

class Blake3Vector : public testing::TestWithParam<Blake3Case> {};

TEST_P(Blake3Vector, MatchesThePublishedHash) {
  EXPECT_EQ(to_hex(blake3(counting(GetParam().size))), GetParam().hex);
}

INSTANTIATE_TEST_SUITE_P(
    Official, Blake3Vector,
    testing::Values(
        Blake3Case{0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"},
        Blake3Case{1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"},
        Blake3Case{1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"},
        Blake3Case{1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"},
        Blake3Case{31744, "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47"},
        Blake3Case{102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"}));

TEST(Blake3, PiecesGiveTheHashOfTheWholeAndMayBeReadOnTheWay) {
  const std::vector<std::uint8_t> bytes = counting(5000);
  Blake3 hasher;
  for (std::size_t at = 0; at < bytes.size(); at += 617) {
    const std::size_t size = std::min<std::size_t>(617, bytes.size() - at);
    hasher.update(std::span(bytes).subspan(at, size));
    EXPECT_EQ(hasher.digest(), blake3(std::span(bytes).first(at + size)));
  }
  EXPECT_EQ(hasher.digest(), blake3(std::as_bytes(std::span(bytes))));
}

struct HmacCase {
  const char* key;
  const char* message;
  const char* tag;
};

class Rfc4231 : public testing::TestWithParam<HmacCase> {};

TEST_P(Rfc4231, GivesTheTag) {
  EXPECT_EQ(to_hex(hmac_sha256(from_hex(GetParam().key), from_hex(GetParam().message))),
            GetParam().tag);
}

INSTANTIATE_TEST_SUITE_P(
    Hmac, Rfc4231,
    testing::Values(HmacCase{"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "4869205468657265",
                             "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
                    HmacCase{"4a656665", "7768617420646f2079612077616e7420666f72206e6f7468696e673f",
                             "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"}));

TEST(Hmac, HashesAKeyLongerThanABlockFirst) {
  const std::vector<std::uint8_t> key(131, 0xaa);
  EXPECT_EQ(to_hex(hmac_sha256(key, as_u8("Test Using Larger Than Block-Size Key - Hash Key "
                                          "First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(EqualInConstantTime, SeesEveryDifferenceAndEveryLength) {
  const std::vector<std::uint8_t> a = counting(40);
  EXPECT_TRUE(equal_in_constant_time(a, counting(40)));
  EXPECT_TRUE(equal_in_constant_time({}, {}));
  EXPECT_FALSE(equal_in_constant_time(a, counting(39)));
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::vector<std::uint8_t> b = a;
    b[i] ^= 0x80;
    EXPECT_FALSE(equal_in_constant_time(a, b)) << i;
  }
}

struct SignCase {
  const char* seed;
  const char* public_key;
  const char* message;
  const char* signature;
};

class Rfc8032 : public testing::TestWithParam<SignCase> {};

KeyPair key_of(std::string_view seed_hex) {
  return KeyPair::from_seed(hash_from_hex(seed_hex).value());
}

TEST_P(Rfc8032, GivesKeyAndSignatureThatVerify) {
  const SignCase& c = GetParam();
  const KeyPair pair = key_of(c.seed);
  EXPECT_EQ(to_hex(pair.public_key()), c.public_key);
  const std::vector<std::uint8_t> message = from_hex(c.message);
  const Signature signature = pair.sign(message);
  EXPECT_EQ(to_hex(signature), c.signature);
  EXPECT_TRUE(verify(pair.public_key(), message, signature));
}

INSTANTIATE_TEST_SUITE_P(
    Ed25519, Rfc8032,
    testing::Values(SignCase{"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                             "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
                             "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
                             "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
                    SignCase{"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                             "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                             "72",
                             "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                             "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
                    SignCase{"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
                             "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
                             "af82",
                             "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
                             "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"}));

TEST(Ed25519, ChangedMessageSignatureOrKeyIsRefused) {
  const KeyPair pair = key_of("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
  const std::vector<std::uint8_t> message = counting(50);
  const Signature signature = pair.sign(message);

  std::vector<std::uint8_t> other_message = message;
  other_message[49] ^= 1;
  EXPECT_FALSE(verify(pair.public_key(), other_message, signature));
  for (std::size_t i = 0; i < signature.size(); i += 9) {
    Signature other = signature;
    other[i] ^= 1;
    EXPECT_FALSE(verify(pair.public_key(), message, other)) << i;
  }
  const KeyPair stranger = KeyPair::from_seed(Seed{7});
  EXPECT_FALSE(verify(stranger.public_key(), message, signature));
}

TEST(Ed25519, SmallOrderKeyVerifiesNothing) {
  // The neutral element: with R = 0 point and S = 0 a lax verifier accepts every message.
  EndpointId neutral{};
  neutral[0] = 1;
  Signature signature{};
  signature[0] = 1;
  EXPECT_FALSE(verify(neutral, as_u8("anything"), signature));
}

TEST(Ed25519, MovedKeyStillSigns) {
  KeyPair first = KeyPair::from_seed(Seed{1});
  const Signature expected = first.sign(as_u8("x"));
  const KeyPair second = std::move(first);
  EXPECT_EQ(second.sign(as_u8("x")), expected);
  static_assert(!std::is_copy_constructible_v<KeyPair>);
}

TEST(Address, IsTheWholeSha256OfThePublicKey) {
  Seed seed{};
  for (std::size_t i = 0; i < seed.size(); ++i) seed[i] = static_cast<std::uint8_t>(i);
  const KeyPair pair = KeyPair::from_seed(seed);
  EXPECT_EQ(to_hex(pair.address()),
            "56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c");
  EXPECT_EQ(pair.address(), address_of(pair.public_key()));
}

}  // namespace
}  // namespace tenzro::crypto
