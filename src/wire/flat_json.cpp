#include "tenzro/wire/flat_json.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "tenzro/base/bytes.hpp"

namespace tenzro::wire {
namespace {

std::string in_quotes(std::string_view text) {
  return '\'' + echo(text) + '\'';
}

/// Receives the parser's events. Every event returns whether to go on.
class FlatReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit FlatReader(std::size_t depth_max) : depth_max_(depth_max) {}

  [[nodiscard]] const std::string& problem() const { return problem_; }

  FlatJson& entries() { return entries_; }

  bool null() override { return take(FlatOpaque{}); }

  bool boolean(bool value) override { return take(value); }

  bool number_integer(std::int64_t value) override { return take_integer(value); }

  bool number_unsigned(std::uint64_t value) override {
    if (std::in_range<std::int64_t>(value)) return take_integer(static_cast<std::int64_t>(value));
    return take(static_cast<double>(value));
  }

  bool number_float(double value, const std::string& /*text*/) override { return take(value); }

  bool string(std::string& value) override { return take(std::move(value)); }

  bool binary(nlohmann::json::binary_t& /*value*/) override { return take(FlatOpaque{}); }

  bool start_object(std::size_t /*elements*/) override;
  bool key(std::string& name) override;
  bool end_object() override;
  bool start_array(std::size_t /*elements*/) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::json::exception& error) override;

 private:
  bool refuse(std::string problem) {
    // The first problem is the one to report: the parser may add its own when it is stopped.
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }

  bool take(FlatValue value);
  bool take_integer(std::int64_t value);

  const std::size_t depth_max_;
  FlatJson entries_;
  std::string problem_;
  /// Path of the member whose value comes next; the paths of the open objects, each with its dot.
  std::string path_;
  std::vector<std::string> open_;
  /// Arrays open at the moment and objects inside them; their contents are not kept.
  std::size_t array_depth_ = 0;
  std::vector<std::int64_t> list_;
  bool list_is_integers_ = true;
};

bool FlatReader::take(FlatValue value) {
  if (open_.empty()) return refuse("not a JSON object");
  if (array_depth_ > 0) {
    list_is_integers_ = false;
    return true;
  }
  entries_.emplace(path_, std::move(value));
  return true;
}

bool FlatReader::take_integer(std::int64_t value) {
  if (array_depth_ != 1) return take(value);
  list_.push_back(value);
  return true;
}

bool FlatReader::start_object(std::size_t /*elements*/) {
  if (open_.size() + array_depth_ == depth_max_) return refuse("nested too deeply");
  if (array_depth_ > 0) {
    list_is_integers_ = false;
    ++array_depth_;
    return true;
  }
  if (open_.empty()) {
    open_.emplace_back();
    return true;
  }
  entries_.emplace(path_, FlatObject{});
  open_.push_back(path_ + '.');
  return true;
}

bool FlatReader::key(std::string& name) {
  if (array_depth_ > 0) return true;
  if (name.find('.') != std::string::npos) return refuse("unknown key " + in_quotes(name));
  path_ = open_.back() + name;
  if (entries_.contains(path_)) return refuse("duplicate key " + in_quotes(path_));
  return true;
}

bool FlatReader::end_object() {
  if (array_depth_ > 0) {
    --array_depth_;
  } else {
    open_.pop_back();
  }
  return true;
}

bool FlatReader::start_array(std::size_t /*elements*/) {
  if (open_.empty()) return refuse("not a JSON object");
  if (open_.size() + array_depth_ == depth_max_) return refuse("nested too deeply");
  if (array_depth_ == 0) {
    list_.clear();
    list_is_integers_ = true;
  } else {
    list_is_integers_ = false;
  }
  ++array_depth_;
  return true;
}

bool FlatReader::end_array() {
  --array_depth_;
  if (array_depth_ > 0) return true;
  if (list_is_integers_) return take(std::move(list_));
  return take(FlatOpaque{});
}

bool FlatReader::parse_error(std::size_t position, const std::string& /*token*/,
                             const nlohmann::json::exception& /*error*/) {
  return refuse("not JSON at byte " + std::to_string(position));
}

}  // namespace

tl::expected<FlatJson, std::string> parse_flat_json(std::string_view text,
                                                    const FlatJsonLimits& limits) {
  const auto refused = [](std::string problem) {
    return tl::expected<FlatJson, std::string>(tl::unexpect, std::move(problem));
  };
  if (text.size() > limits.bytes_max) {
    return refused("longer than " + std::to_string(limits.bytes_max) + " bytes");
  }
  if (!is_valid_utf8(text)) return refused("not UTF-8");
  // The parser skips a byte order mark and takes a NUL for the end: neither is JSON.
  if (text.starts_with("\xEF\xBB\xBF") || text.find('\0') != std::string_view::npos) {
    return refused("not JSON");
  }
  FlatReader reader(limits.depth_max);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) {
    return refused(reader.problem());
  }
  return std::move(reader.entries());
}

}  // namespace tenzro::wire
