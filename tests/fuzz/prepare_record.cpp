// Goal: a record of the log is read or is none, and what is read is written as it was understood.
#include <cstdint>
#include <string>

#include "tenzro/base/assert.hpp"

#include "record.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tenzro;
  using namespace tenzro::prepare;
  const std::string text(static_cast<const char*>(static_cast<const void*>(data)), size);
  if (const auto record = read_job_record(text)) {
    const std::string written = to_text(*record);
    const auto again = read_job_record(written);
    TENZRO_ASSERT(again.has_value());
    TENZRO_ASSERT(to_text(*again) == written);
  }
  const work::LoggedPart part{text.substr(0, 12), text, BlobHash{}, size, true};
  static_cast<void>(read_part(part));
  return 0;
}
