// A UDP payload of a stranger, told apart.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "datagram.hpp"

namespace {

using namespace tenzro::net;

bool is_within(std::span<const std::uint8_t> part, std::span<const std::uint8_t> whole) {
  if (part.empty()) return true;
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> payload(data, size);
  const auto head = read_head(payload);
  if (!head) return 0;
  if (!is_within(head->destination, payload) || !is_within(head->source, payload)) std::abort();
  if (!head->is_long && head->destination.size() != kConnectionIdBytes) std::abort();
  if (head->kind == DatagramKind::unknown_version) {
    if (!head->is_long || size < kFirstDatagramBytesMin) std::abort();
    return 0;
  }
  const ngtcp2_cid id = connection_id_of(head->destination);
  if (id.datalen != head->destination.size()) std::abort();
  ngtcp2_pkt_hd header{};
  if (head->is_long && ngtcp2_accept(&header, data, size) == 0) {
    if (header.dcid.datalen != head->destination.size()) std::abort();
  }
  return 0;
}
