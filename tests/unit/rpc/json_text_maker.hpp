#pragma once
/// \file
/// Random JSON texts, valid and nearly valid, from a seed.
#include <string>

#include "tenzro/base/prng.hpp"

namespace tenzro::rpc {

/// A valid JSON value of at most `depth` levels.
inline std::string random_json(Prng& prng, unsigned depth);

inline std::string random_space(Prng& prng) {
  constexpr const char* kSpaces[] = {"", "", "", " ", "\n", "\t ", "\r\n"};
  return kSpaces[prng.below(std::size(kSpaces))];
}

inline std::string random_number(Prng& prng) {
  constexpr const char* kNumbers[] = {"0",    "-0",  "7",       "-12",   "4294967296",
                                      "1.5",  "1e3", "-2.5E-7", "0.001", "18446744073709551615",
                                      "10e+2"};
  return kNumbers[prng.below(std::size(kNumbers))];
}

inline std::string random_string(Prng& prng) {
  constexpr const char* kParts[] = {
      "a",   "layer",    "\\n",          "\\\"", "\\u0041", "\\u0000", "\\ud83d\\ude00",
      "\\/", "\xC3\xA9", "\xE2\x82\xAC", "\\\\", "[1,2]",   "{}",      "\xF0\x9F\x98\x80",
      ",:"};
  std::string text = "\"";
  for (std::uint64_t i = prng.below(6); i > 0; --i) text += kParts[prng.below(std::size(kParts))];
  // Now and then a long plain run, so that whole blocks are skipped.
  if (prng.below(8) == 0) text.append(prng.below(300), 'x');
  return text + '"';
}

// NOLINTBEGIN(misc-no-recursion): each level is told how many may follow
inline std::string random_object(Prng& prng, unsigned depth) {
  std::string text = "{";
  const std::uint64_t members = prng.below(12);
  for (std::uint64_t i = 0; i < members; ++i) {
    if (i > 0) text += ',';
    // The index keeps keys apart.
    text += random_space(prng) + "\"k" + std::to_string(i) + random_string(prng).substr(1);
    text += random_space(prng) + ':' + random_json(prng, depth);
  }
  return text + random_space(prng) + '}';
}

inline std::string random_array(Prng& prng, unsigned depth) {
  std::string text = "[";
  const std::uint64_t elements = prng.below(7);
  const bool numbers_only = prng.below(2) == 0;
  for (std::uint64_t i = 0; i < elements; ++i) {
    if (i > 0) text += ',';
    text += random_space(prng);
    text += numbers_only ? random_number(prng) : random_json(prng, depth);
    text += random_space(prng);
  }
  return text + ']';
}

inline std::string random_json(Prng& prng, unsigned depth) {
  constexpr const char* kWords[] = {"true", "false", "null"};
  std::string value;
  switch (prng.below(depth == 0 ? 3 : 5)) {
    case 0:
      value = kWords[prng.below(std::size(kWords))];
      break;
    case 1:
      value = random_number(prng);
      break;
    case 2:
      value = random_string(prng);
      break;
    case 3:
      value = random_array(prng, depth - 1);
      break;
    default:
      value = random_object(prng, depth - 1);
      break;
  }
  return random_space(prng) + value + random_space(prng);
}

// NOLINTEND(misc-no-recursion)

/// The same text with a few bytes changed, lost or doubled.
inline std::string damaged(std::string text, Prng& prng) {
  constexpr std::string_view kBytes = "{}[]\",:\\u0\x01\x80\xC3 1eE.-+tfn";
  for (std::uint64_t i = 1 + prng.below(3); i > 0 && !text.empty(); --i) {
    const std::size_t at = prng.below(text.size());
    switch (prng.below(3)) {
      case 0:
        text[at] = kBytes[prng.below(kBytes.size())];
        break;
      case 1:
        text.erase(at, 1 + prng.below(3));
        break;
      default:
        text.insert(at, 1, kBytes[prng.below(kBytes.size())]);
        break;
    }
  }
  return text;
}

}  // namespace tenzro::rpc
