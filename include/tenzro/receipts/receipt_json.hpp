#pragma once
/// \file
/// The JSON member `receipt` of an execute response.
///
/// {"provider":[32 integers],"input_hash":[32],"commitment":[32],
///  "signature":{"key_type":"Ed25519","bytes":[64]},"public_key":{"key_type":"Ed25519","bytes":[32]}}
/// Rules
///  - Written in this order without white space: equal receipts give equal text.
///  - Read strictly: every member there, of its length, integers from 0 to 255, no key twice.
///    Members that are not known are ignored.
///  - Only Ed25519. A receipt with another key type is refused by name: its address could not be
///    checked.
/// Pure. Thread: any.
#include <cstddef>
#include <string>
#include <string_view>

#include "tenzro/base/result.hpp"
#include "tenzro/receipts/receipt.hpp"
#include "tenzro/receipts/receipt_set.hpp"

namespace tenzro::receipts {

/// Longest text that is read. A written receipt is shorter than 1 KiB.
inline constexpr std::size_t kReceiptJsonBytesMax = 16ULL << 10U;

[[nodiscard]] std::string receipt_to_json(const Receipt& receipt);
/// `receipt2`: {"provider", "input_hash", "commitment", "rows_hash", "blob_hash", "gate_type",
/// "up_type", "down_type", "profile", "signature", "public_key"}, lists and keys as in `receipt`.
/// Requires a set of one expert.
[[nodiscard]] std::string receipt_set_to_json(const ReceiptSet& set);
/// Error: runtime, at "receipt".
[[nodiscard]] Result<Receipt> receipt_from_json(std::string_view text);

}  // namespace tenzro::receipts
