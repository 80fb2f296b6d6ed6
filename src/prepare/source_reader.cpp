#include "source_reader.hpp"

#include <algorithm>
#include <utility>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"

namespace tenzro::prepare {

SourceReader::SourceReader(SourceAddress address, const SourceOptions& options, work::JobIds& jobs,
                           work::CallIds& calls, Prng& prng)
    : address_(std::move(address)), options_(options), jobs_(jobs), calls_(calls), prng_(prng) {
  TENZRO_ASSERT(options.range_bytes > 0);
  TENZRO_ASSERT(options.ranges_max > 0);
  if (const auto origin = origin_of(options.hub_url)) hub_origin_ = *origin;
}

std::vector<ReadDone> SourceReader::take_done() {
  return std::exchange(done_, {});
}

ReadId SourceReader::read(Instant now, SourceRead read, Outbox& out) {
  const ReadId id{++last_read_};
  if (read.length > options_.read_bytes_max) {
    finish(id, fail(ErrorCode::runtime, read.file,
                    std::to_string(read.length) + " bytes are wanted at once, at most " +
                        std::to_string(options_.read_bytes_max) + " are read"));
    return id;
  }
  if (!address_.is_remote) {
    read_local(id, read, out);
    return id;
  }
  const bool is_known = versions_.contains(read.file);
  const std::uint64_t first_bytes = std::min(read.length, options_.range_bytes);
  Piece probe{.read = id, .offset = read.offset, .length = std::max<std::uint64_t>(1, first_bytes)};
  readings_.emplace(id, Reading{.what = std::move(read)});
  if (is_known) {
    open_reading(id, out);
  } else {
    probe.probe = BufferRef::allocate(static_cast<std::size_t>(probe.length));
    probe.probe_data = probe.probe.mutable_bytes().data();
    queue_.push_back(std::move(probe));
  }
  pump(now, out);
  return id;
}

void SourceReader::read_local(ReadId id, const SourceRead& read, Outbox& out) {
  readings_.emplace(id, Reading{.what = read});
  const auto known = versions_.find(read.file);
  const JobId job = jobs_.next();
  local_.emplace(job, id);
  out.emplace_back(Store{
      job, work::ReadSource{address_.root, read.file, read.offset, read.length, read.allow_short,
                            known == versions_.end() ? "" : known->second.version}});
}

bool SourceReader::on_store_done(JobId job, const work::StoreResult& result) {
  const auto local = local_.extract(job);
  if (!local) return false;
  const auto reading = readings_.find(local.mapped());
  if (reading == readings_.end()) return true;
  if (!result) {
    finish(local.mapped(), fail(result.error()));
    return true;
  }
  const auto& read = std::get<work::ReadBytes>(*result);
  if (const Status same = check_version(reading->second.what.file, {read.file_bytes, read.version});
      !same) {
    finish(local.mapped(), fail(same.error()));
    return true;
  }
  bytes_read_ += read.bytes.size();
  finish(local.mapped(), SourceBytes{read.bytes, read.file_bytes});
  return true;
}

void SourceReader::expect(FileVersions versions) {
  versions_ = std::move(versions);
  for (const auto& [file, version] : versions_) {
    if (commit_.empty() && !version.commit.empty()) keep_to(version.commit, file);
  }
}

void SourceReader::keep_to(const std::string& commit, const std::string& file) {
  commit_ = commit;
  commit_file_ = file;
  pinned_ = address_.at_commit(commit);
}

std::string SourceReader::url_of(const std::string& file) const {
  return (pinned_ ? *pinned_ : address_).url_of(file);
}

/// A redirect tells it, where what it leads to does not. A file of another commit may be the same
/// one: that is for check_version to say, when its version is known.
Status SourceReader::check_commit(const std::string& file, const std::string& commit) {
  if (commit.empty() || commit == commit_) return {};
  if (commit_.empty()) {
    keep_to(commit, file);
    return {};
  }
  if (versions_.contains(file)) {
    doubtful_.emplace(file, commit);
    return {};
  }
  return fail(ErrorCode::runtime, file,
              "is of commit " + echo(commit) + ", and '" + echo(commit_file_) + "' was of commit " +
                  echo(commit_) +
                  ": the repository was changed since the job began; start a new one");
}

Status SourceReader::check_version(const std::string& file, FileVersion version) {
  version.commit = commit_;
  const auto [known, is_new] = versions_.emplace(file, version);
  const FileVersion& first = known->second;
  const bool is_proven = first.version == version.version && version.version.starts_with('"');
  const bool may_be_same =
      first.file_bytes == version.file_bytes &&
      (first.version == version.version || first.version.empty() || version.version.empty());
  const auto doubt = doubtful_.find(file);
  if (is_new || (may_be_same && (doubt == doubtful_.end() || is_proven))) return {};
  if (may_be_same) {
    return fail(ErrorCode::runtime, file,
                "is of commit " + echo(doubt->second) + ", the job began at commit " +
                    echo(commit_) +
                    ", and nothing proves that it is the same in both; start a new one");
  }
  const auto text = [](const FileVersion& each) {
    return std::to_string(each.file_bytes) + " bytes" +
           (each.version.empty() ? "" : " of version " + echo(each.version));
  };
  return fail(ErrorCode::runtime, file,
              "was changed since the job began: it had " + text(first) + ", it has " +
                  text(version) + "; start a new one");
}

/// The file's size is known: room for what there is of the range, and its pieces.
void SourceReader::open_reading(ReadId id, Outbox& out) {
  Reading& reading = readings_.at(id);
  SourceRead& what = reading.what;
  const std::uint64_t file_bytes = versions_.find(what.file)->second.file_bytes;
  const std::uint64_t there = what.offset < file_bytes ? file_bytes - what.offset : 0;
  if (what.length > there && !what.allow_short) {
    return fail_read(id, ErrorCode::io,
                     "is too short: " + std::to_string(what.length) + " bytes at offset " +
                         std::to_string(what.offset) + " are wanted, it has " +
                         std::to_string(file_bytes),
                     out);
  }
  what.length = std::min(what.length, there);
  reading.missing = what.length;
  if (what.length == 0) return finish(id, SourceBytes{{}, file_bytes});
  reading.buffer = BufferRef::allocate(static_cast<std::size_t>(what.length));
  reading.data = reading.buffer.mutable_bytes().data();
  for (std::uint64_t done = 0; done < what.length; done += options_.range_bytes) {
    queue_.push_back({.read = id,
                      .offset = what.offset + done,
                      .length = std::min(options_.range_bytes, what.length - done)});
  }
}

void SourceReader::pump(Instant now, Outbox& out) {
  if (paused_until_ > now) return;
  is_rate_limited_ = false;
  while (flights_.size() < options_.ranges_max) {
    const auto next = std::find_if(queue_.begin(), queue_.end(),
                                   [now](const Piece& piece) { return piece.not_before <= now; });
    if (next == queue_.end()) return;
    Piece piece = std::move(*next);
    queue_.erase(next);
    send(std::move(piece), out);
  }
}

void SourceReader::send(Piece piece, Outbox& out) {
  Reading& reading = readings_.at(piece.read);
  const auto moved = moved_to_.find(reading.what.file);
  std::string url = moved == moved_to_.end() ? url_of(reading.what.file) : moved->second;
  const PeerCallId id = calls_.next();
  work::Download download{.id = id, .url = url, .offset = piece.offset};
  const auto length = static_cast<std::size_t>(piece.length);
  if (piece.probe.empty()) {
    download.buffer = reading.buffer;
    download.room = {reading.data + (piece.offset - reading.what.offset), length};
  } else {
    download.room = {piece.probe_data, length};
    download.buffer = piece.probe;
  }
  download.credential = credential_for(url);
  out.emplace_back(std::move(download));
  flights_.emplace(id, Flight{std::move(piece), std::move(url), moved != moved_to_.end()});
}

work::Credential SourceReader::credential_for(const std::string& url) const {
  const auto origin = origin_of(url);
  const bool is_hub = origin && !hub_origin_.empty() && *origin == hub_origin_;
  return is_hub ? work::Credential::hub_token : work::Credential::none;
}

Duration SourceReader::pause(std::size_t failures) {
  Duration longest = options_.pause_min;
  for (std::size_t i = 1; i < failures && longest < options_.pause_max; ++i) longest *= 2;
  longest = std::min(longest, options_.pause_max);
  const auto half = static_cast<std::uint64_t>(longest.count() / 2);
  return Duration(static_cast<std::int64_t>(half + prng_.below(half + 1)));
}

std::optional<Instant> SourceReader::rate_limited_until(Instant now) const {
  if (!is_rate_limited_ || paused_until_ <= now) return std::nullopt;
  return paused_until_;
}

std::optional<Instant> SourceReader::next_deadline() const {
  if (queue_.empty() || flights_.size() >= options_.ranges_max) return std::nullopt;
  const auto first =
      std::min_element(queue_.begin(), queue_.end(),
                       [](const Piece& a, const Piece& b) { return a.not_before < b.not_before; });
  return std::max(first->not_before, paused_until_);
}

void SourceReader::finish(ReadId id, Result<SourceBytes> bytes) {
  readings_.erase(id);
  done_.push_back({id, std::move(bytes)});
}

void SourceReader::fail_read(ReadId id, ErrorCode code, const std::string& why, Outbox& out) {
  const std::string file = readings_.at(id).what.file;
  std::erase_if(queue_, [id](const Piece& piece) { return piece.read == id; });
  std::erase_if(flights_, [&](const auto& flight) {
    if (flight.second.piece.read != id) return false;
    out.emplace_back(work::CancelCall{flight.first});
    return true;
  });
  finish(id, fail(code, file, why));
}

void SourceReader::stop(Outbox& out) {
  for (const auto& [id, flight] : flights_) out.emplace_back(work::CancelCall{id});
  flights_.clear();
  queue_.clear();
  readings_.clear();
  local_.clear();
  done_.clear();
}

}  // namespace tenzro::prepare
