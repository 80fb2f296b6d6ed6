// The index of a sharded checkpoint, read in one pass: of a file of 64 MiB nothing is kept but the
// tensors that are asked for, however many layers those are of.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "tenzro/base/bytes.hpp"
#include "tenzro/prepare/build_blob.hpp"
#include "tenzro/tensor/foreign_file.hpp"

#include "source_address.hpp"

namespace tenzro::prepare {
namespace {

constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kMapKey = "weight_map";

/// Whether a name begins with one of some prefixes, of which there may be thousands.
class Prefixes {
 public:
  /// Kept in order, without those that begin with another one: then only the last that is not after
  /// a name can begin it.
  explicit Prefixes(std::vector<std::string> all) {
    std::sort(all.begin(), all.end());
    for (std::string& one : all) {
      if (kept_.empty() || !one.starts_with(kept_.back())) kept_.push_back(std::move(one));
    }
  }

  [[nodiscard]] bool begin(const std::string& name) const {
    const auto after = std::upper_bound(kept_.begin(), kept_.end(), name);
    return after != kept_.begin() && name.starts_with(*std::prev(after));
  }

 private:
  std::vector<std::string> kept_;
};

/// Takes `weight_map` of the outermost object. Returning false ends the pass.
class IndexScan final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit IndexScan(const std::vector<std::string>& prefixes) : prefixes_(prefixes) {}

  bool null() override { return other(); }

  bool boolean(bool /*value*/) override { return other(); }

  bool number_integer(number_integer_t /*value*/) override { return other(); }

  bool number_unsigned(number_unsigned_t /*value*/) override { return other(); }

  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return other(); }

  bool binary(binary_t& /*value*/) override { return other(); }

  bool string(string_t& text) override {
    if (!is_wanted()) return other();
    if (const Status plain = check_file_name(text); !plain)
      return refuse("the file of tensor '" + echo(key_) + "': " + plain.error().detail);
    if (!found_->add(key_, text)) return refuse("names too many files");
    return true;
  }

  bool key(string_t& text) override {
    key_ = std::move(text);
    return true;
  }

  bool start_object(std::size_t /*size*/) override {
    if (depth_ == 1 && key_ == kMapKey) {
      if (has_map_) return refuse("weight_map is named twice");
      has_map_ = in_map_ = true;
    } else if (depth_ > 0 && !other()) {
      return false;
    }
    return deeper();
  }

  bool end_object() override {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }

  bool start_array(std::size_t /*size*/) override { return other() && deeper(); }

  bool end_array() override {
    --depth_;
    return true;
  }

  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::json::exception& /*why*/) override {
    return false;
  }

  [[nodiscard]] Result<work::ScannedIndex> result(bool is_whole) {
    if (error_.empty() && !is_whole) error_ = "is not a JSON object";
    if (error_.empty() && !has_map_) error_ = "weight_map is missing or not an object";
    if (!error_.empty()) return fail(ErrorCode::runtime, kIndexFile, error_);
    if (const auto twice = found_->seal())
      return fail(ErrorCode::runtime, kIndexFile, "tensor '" + echo(*twice) + "' is named twice");
    return work::ScannedIndex{std::move(found_)};
  }

 private:
  /// More would be no index, and its parser's stack is bounded.
  static constexpr std::size_t kDepthMax = 16;

  bool refuse(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }

  bool deeper() { return ++depth_ <= kDepthMax || refuse("is nested too deeply"); }

  [[nodiscard]] bool is_wanted() const { return in_map_ && depth_ == 2 && prefixes_.begin(key_); }

  /// A value that is no file's name.
  bool other() {
    if (is_wanted()) return refuse("the file of tensor '" + echo(key_) + "' is not a string");
    return depth_ > 0 || refuse("is not a JSON object");
  }

  Prefixes prefixes_;
  std::shared_ptr<work::ShardIndex> found_ = std::make_shared<work::ShardIndex>();
  std::string key_;
  std::string error_;
  std::size_t depth_ = 0;
  bool in_map_ = false;
  bool has_map_ = false;
};

}  // namespace

Result<work::ScannedIndex> scan_index(const work::ScanIndex& job) {
  const std::string_view text = job.json.text();
  if (const auto foreign = tensor::foreign_file(text))
    return fail(ErrorCode::runtime, kIndexFile, std::string(*foreign));
  IndexScan scan(job.prefixes);
  const bool is_whole = nlohmann::json::sax_parse(text.begin(), text.end(), &scan);
  return scan.result(is_whole);
}

}  // namespace tenzro::prepare
