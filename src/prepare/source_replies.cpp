// SourceReader: what the web server answered, and what follows.
#include <algorithm>
#include <utility>

#include "tenzro/base/bytes.hpp"

#include "source_reader.hpp"

namespace tenzro::prepare {
namespace {

// Of HTTP.
constexpr int kOk = 200;
constexpr int kPartialContent = 206;
constexpr int kUnauthorized = 401;
constexpr int kForbidden = 403;
constexpr int kNotFound = 404;
constexpr int kTimeout = 408;
constexpr int kGone = 410;
constexpr int kRangeNotSatisfiable = 416;
constexpr int kTooEarly = 425;
constexpr int kTooManyRequests = 429;
constexpr int kUnavailable = 503;

/// What must come of a range, unless its rest is less, for its failures not to count any more.
constexpr std::uint64_t kProgressBytes = 64ULL << 10U;

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool is_rate_limit(int status) {
  return status == kTooManyRequests || status == kUnavailable;
}

bool may_pass(int status) {
  return status == 0 || status == kTimeout || status == kTooEarly || status >= 500;
}

bool is_of_file(const work::Downloaded& downloaded, std::uint64_t offset) {
  return downloaded.status == kPartialContent || (downloaded.status == kOk && offset == 0);
}

/// Nothing of any commit.
bool is_missing(int status) {
  return status == kNotFound || status == kGone;
}

std::string status_text(int status) {
  return "the server answered HTTP status " + std::to_string(status);
}

}  // namespace

bool SourceReader::on_downloaded(Instant now, PeerCallId call, const work::Downloaded& downloaded,
                                 Outbox& out) {
  auto flight = flights_.extract(call);
  if (!flight) return false;
  // A refusal's wait is counted with its pause, below.
  if (downloaded.wait && !is_rate_limit(downloaded.status)) leave_alone(now, *downloaded.wait);
  const Piece& piece = flight.mapped().piece;
  const std::string commit = is_missing(downloaded.status) ? "" : downloaded.commit;
  if (const Status same = check_commit(readings_.at(piece.read).what.file, commit); !same) {
    fail_read(piece.read, same.error().code, same.error().detail, out);
  } else {
    take_reply(now, std::move(flight.mapped()), downloaded, out);
  }
  pump(now, out);
  return true;
}

void SourceReader::take_reply(Instant now, Flight flight, const work::Downloaded& downloaded,
                              Outbox& out) {
  const int status = downloaded.status;
  if (is_of_file(downloaded, flight.piece.offset))
    return on_bytes(now, std::move(flight.piece), downloaded, out);
  if (downloaded.is_final)
    return fail_read(flight.piece.read, ErrorCode::io, downloaded.failure, out);
  if (is_rate_limit(status)) return on_rate_limit(now, std::move(flight.piece), downloaded, out);
  if (is_redirect(status)) return on_redirect(std::move(flight), downloaded, out);
  if (!may_pass(status)) return on_refusal(now, std::move(flight), downloaded, out);
  const std::string why = status == 0 ? downloaded.failure : status_text(status);
  on_failure(now, std::move(flight.piece), why, out);
}

void SourceReader::on_bytes(Instant now, Piece piece, const work::Downloaded& downloaded,
                            Outbox& out) {
  const std::string& file = readings_.at(piece.read).what.file;
  const bool is_whole = downloaded.status == kOk && downloaded.failure.empty();
  std::optional<std::uint64_t> file_bytes = downloaded.file_bytes;
  if (!file_bytes && is_whole && downloaded.received < piece.length)
    file_bytes = downloaded.received;
  if (!file_bytes)
    return fail_read(piece.read, ErrorCode::io, "the server does not say how large it is", out);
  if (downloaded.received > 0 && downloaded.first != piece.offset)
    return fail_read(piece.read, ErrorCode::io, "the server gave another part of it", out);
  if (const Status same = check_version(file, {*file_bytes, downloaded.version}); !same) {
    fail_read(piece.read, same.error().code, same.error().detail, out);
    return;
  }
  bytes_read_ += downloaded.received;
  if (downloaded.received >= std::min(piece.length, kProgressBytes)) piece.failures = 0;
  if (downloaded.received > 0) {
    refusals_ = 0;
    refused_since_.reset();
  }
  piece.redirects = 0;
  const bool is_broken = !downloaded.failure.empty();
  if (!piece.probe.empty() && (!is_broken || downloaded.received > 0)) {
    const std::size_t queued = queue_.size();
    on_probe(piece, downloaded, out);
    for (std::size_t i = queued; is_broken && i < queue_.size(); ++i) {
      queue_[i].not_before = now + pause(1);
      queue_[i].failures = downloaded.is_slow ? piece.failures + 1 : 0;
    }
    return;
  }
  piece.offset += downloaded.received;
  piece.length -= downloaded.received;
  Reading& reading = readings_.at(piece.read);
  reading.missing -= piece.probe.empty() ? downloaded.received : 0;
  if (piece.length > 0 && downloaded.received > 0 && !downloaded.is_slow) {
    if (is_broken) piece.not_before = now + pause(1);
    queue_.push_front(std::move(piece));
  } else if (piece.length > 0) {
    const std::string why = downloaded.failure.empty() ? "nothing came" : downloaded.failure;
    on_failure(now, std::move(piece), why, out);
  } else if (reading.missing == 0) {
    finish(piece.read, SourceBytes{reading.buffer, *file_bytes});
  }
}

/// The first bytes of a file, and with them its size.
void SourceReader::on_probe(const Piece& piece, const work::Downloaded& downloaded, Outbox& out) {
  const ReadId id = piece.read;
  const std::size_t queued = queue_.size();
  open_reading(id, out);
  const auto reading = readings_.find(id);
  if (reading == readings_.end()) return;
  const std::uint64_t got = std::min<std::uint64_t>(downloaded.received, reading->second.missing);
  if (got == reading->second.missing) {
    queue_.resize(queued);  // all of it is there
    const std::uint64_t file_bytes = versions_.find(reading->second.what.file)->second.file_bytes;
    return finish(id, SourceBytes{piece.probe.slice(0, static_cast<std::size_t>(got)), file_bytes});
  }
  std::copy_n(piece.probe.bytes().data(), static_cast<std::size_t>(got), reading->second.data);
  reading->second.missing -= got;
  std::uint64_t left = got;
  while (left > 0 && queue_.size() > queued) {
    Piece& first = queue_[queued];
    const std::uint64_t taken = std::min(left, first.length);
    first.offset += taken;
    first.length -= taken;
    left -= taken;
    if (first.length == 0) queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(queued));
  }
}

void SourceReader::on_redirect(Flight flight, const work::Downloaded& downloaded, Outbox& out) {
  Piece& piece = flight.piece;
  const PlainHttp rule = options_.plain_http ? PlainHttp::anywhere : PlainHttp::loopback_only;
  if (downloaded.location.empty())
    return fail_read(piece.read, ErrorCode::io, status_text(downloaded.status) + " to nowhere",
                     out);
  if (const Status allowed = check_redirect(flight.url, downloaded.location, rule); !allowed) {
    fail_read(piece.read, ErrorCode::io, "is redirected: " + allowed.error().message(), out);
    return;
  }
  if (++piece.redirects > options_.redirects_max)
    return fail_read(piece.read, ErrorCode::io, "is redirected again and again", out);
  moved_to_.insert_or_assign(readings_.at(piece.read).what.file, downloaded.location);
  queue_.push_front(std::move(piece));
}

/// What another attempt at the same place would not change.
void SourceReader::on_refusal(Instant now, Flight flight, const work::Downloaded& downloaded,
                              Outbox& out) {
  Piece& piece = flight.piece;
  const Reading& reading = readings_.at(piece.read);
  const int status = downloaded.status;
  // A redirect's target is good for a while only.
  const auto moved = moved_to_.find(reading.what.file);
  if (flight.was_moved && status != kOk && status != kRangeNotSatisfiable) {
    if (moved != moved_to_.end() && moved->second == flight.url) moved_to_.erase(moved);
    return on_failure(now, std::move(piece), status_text(status), out);
  }
  if (status == kRangeNotSatisfiable && reading.what.allow_short && downloaded.file_bytes) {
    const FileVersion version{*downloaded.file_bytes, downloaded.version};
    const Status same = check_version(reading.what.file, version);
    if (!same) return fail_read(piece.read, same.error().code, same.error().detail, out);
    return finish(piece.read, SourceBytes{{}, *downloaded.file_bytes});
  }
  if (status == kOk)
    return fail_read(piece.read, ErrorCode::io, "the server does not give parts of files", out);
  if (status == kRangeNotSatisfiable) {
    return fail_read(piece.read, ErrorCode::io,
                     "is too short: nothing is at offset " + std::to_string(piece.offset), out);
  }
  std::string why = status_text(status);
  if (status == kUnauthorized || status == kForbidden)
    why += ": it wants a token that may read it (TENZRO_HUB_TOKEN or HF_TOKEN in the environment)";
  if (is_missing(status) && pinned_) {
    why += " at commit " + commit_ +
           ", of which the job is: where the server dropped it, only a new job helps";
  }
  fail_read(piece.read, is_missing(status) ? ErrorCode::not_found : ErrorCode::io, why, out);
}

void SourceReader::leave_alone(Instant now, Duration wait) {
  const Instant until = now + std::min(wait, options_.wait_max);
  if (until <= now) return;
  paused_until_ = std::max(paused_until_, until);
  is_rate_limited_ = true;
}

void SourceReader::on_rate_limit(Instant now, Piece piece, const work::Downloaded& downloaded,
                                 Outbox& out) {
  if (!refused_since_) refused_since_ = now;
  if (now - *refused_since_ >= options_.patience) {
    return fail_read(piece.read, ErrorCode::busy,
                     status_text(downloaded.status) + " for too long: a rate limit", out);
  }
  // Those that were refused together count once.
  if (!is_rate_limited_ || paused_until_ <= now || refusals_ == 0) ++refusals_;
  const Duration asked = downloaded.wait.value_or(Duration{});
  leave_alone(now, std::max(asked, Duration{}) + pause(refusals_));
  queue_.push_front(std::move(piece));
}

void SourceReader::on_failure(Instant now, Piece piece, const std::string& why, Outbox& out) {
  if (++piece.failures >= options_.failures_max) {
    return fail_read(piece.read, ErrorCode::io,
                     "given up after " + std::to_string(piece.failures) + " attempts: " + echo(why),
                     out);
  }
  piece.not_before = now + pause(piece.failures);
  queue_.push_back(std::move(piece));
}

}  // namespace tenzro::prepare
