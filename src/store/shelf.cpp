#include "shelf.hpp"

#include <algorithm>
#include <utility>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/blake3.hpp"

namespace tenzro::store {
namespace {

constexpr unsigned kFirstBytes = 256;

Result<bool> has_any(const BlobFiles& blobs) {
  for (unsigned byte = 0; byte < kFirstBytes; ++byte) {
    const Result<std::vector<BlobHash>> hashes = blobs.list(static_cast<std::uint8_t>(byte));
    if (!hashes) return fail(hashes.error());
    if (!hashes->empty()) return true;
  }
  return false;
}

Status make_index(Index& index, const BlobFiles& blobs) {
  const Result<bool> has_blobs = has_any(blobs);
  if (!has_blobs) return fail(has_blobs.error());
  if (*has_blobs) return fail(index.missing("there are blobs but no index of them"));
  return index.create();
}

std::string damage_text(const std::string& path, const Index::Damage& damage) {
  return "rows of '" + echo(path) +
         "' were damaged and have been set aside in it: " + std::to_string(damage.holdings) +
         " experts and gates are not held any more, and " + std::to_string(damage.blobs) +
         " blobs had to be found again";
}

/// `change` frees space, or is the way to it. Where the disk has no room even for that, it gets
/// what was put by.
template <typename Change>
auto with_reserve(SpaceReserve& reserve, Change change) {
  auto changed = change();
  const bool is_full = !changed && changed.error().code == ErrorCode::no_space;
  if (is_full && reserve.release()) return change();
  return changed;
}

Error missing(const BlobHash& hash) {
  return {ErrorCode::not_found, "blob " + to_hex(hash), "is not in this node's store"};
}

}  // namespace

Result<Shelf::Opened> Shelf::open(const std::string& index_path, const BlobFiles::Options& options,
                                  FileSystem& files) {
  Result<std::unique_ptr<BlobFiles>> blobs = BlobFiles::open(options, files);
  if (!blobs) return fail(blobs.error());
  SpaceReserve reserve(files, index_path + ".reserve");
  // Opening may write too: what readers share, digests, rows set aside.
  Result<std::unique_ptr<Index>> index =
      with_reserve(reserve, [&] { return Index::open(index_path); });
  if (!index) return fail(index.error());
  if ((*index)->is_missing()) {
    if (Status made = make_index(**index, **blobs); !made) return fail(made.error());
  }

  Opened opened;
  opened.shelf.reset(new Shelf(std::move(*blobs), std::move(*index), nullptr, std::move(reserve)));
  opened.shelf->reserve_.make();
  const Index::Damage& damage = opened.shelf->index_->damage();
  if (damage.holdings + damage.blobs > 0) {
    opened.warnings.push_back(damage_text(index_path, damage));
  }
  const Result<std::vector<BlobHash>> gone = opened.shelf->reconcile();
  if (!gone) return fail(gone.error());
  // After the blobs are counted: what is left of fetches gives way to them.
  BlobFiles& kept = opened.shelf->blobs();
  Result<std::unique_ptr<Partials>> partials =
      Partials::open(kept.partial_directory(), files, kept.shared_budget());
  if (!partials) return fail(partials.error());
  opened.shelf->partials_ = std::move(*partials);
  Result<std::vector<work::HoldingRow>> rows = opened.shelf->index_->holdings();
  if (!rows) return fail(rows.error());
  opened.rows = std::move(*rows);
  const std::size_t without_file = std::erase_if(opened.rows, [&gone](const work::HoldingRow& row) {
    return std::binary_search(gone->begin(), gone->end(), row.hash);
  });
  if (!gone->empty()) {
    opened.warnings.push_back(std::to_string(gone->size()) + " blobs are missing from '" +
                              echo(options.directory) + "', so " + std::to_string(without_file) +
                              " experts and gates are not held; is the disk mounted?");
  }
  return opened;
}

Result<std::vector<BlobHash>> Shelf::reconcile() {
  std::vector<BlobHash> gone;
  for (unsigned byte = 0; byte < kFirstBytes; ++byte) {
    Status reconciled = reconcile_folder(static_cast<std::uint8_t>(byte), gone);
    if (!reconciled) return fail(reconciled.error());
  }
  if (Status ended = index_->end_adopting(); !ended) return fail(ended.error());
  return gone;
}

Status Shelf::reconcile_folder(std::uint8_t first_byte, std::vector<BlobHash>& gone) {
  const Result<std::vector<BlobHash>> on_disk = blobs_->list(first_byte);
  if (!on_disk) return fail(on_disk.error());
  const Result<std::vector<BlobRow>> wanted = index_->blobs(first_byte);
  if (!wanted) return fail(wanted.error());
  auto file = on_disk->begin();
  for (const BlobRow& row : *wanted) {
    for (; file != on_disk->end() && *file < row.hash; ++file) {
      if (Status settled = settle_stray(*file); !settled) return settled;
    }
    if (file == on_disk->end() || *file != row.hash) {
      gone.push_back(row.hash);
    } else {
      ++file;
    }
    // The missing count as well: a save of theirs writes the file without counting it again.
    blobs_->budget().count(row.size_bytes);
  }
  for (; file != on_disk->end(); ++file) {
    if (Status settled = settle_stray(*file); !settled) return settled;
  }
  return {};
}

Status Shelf::settle_stray(const BlobHash& hash) {
  if (!index_->is_adopting()) return blobs_->remove_uncounted(hash);
  const Result<std::uint64_t> size = blobs_->size(hash);
  if (!size) return fail(size.error());
  blobs_->budget().count(*size);
  return index_->adopt({hash, *size});
}

Status Shelf::put_and_record(const BlobRow& blob,
                             const std::function<Status(BlobFiles::Counted)>& put,
                             const std::function<Status()>& record) {
  const Result<bool> counted = is_counted(blob.hash);
  if (!counted) return fail(counted.error());
  const bool is_new = !*counted;
  if (is_new) partials_->make_room(blob.size_bytes);
  if (Status stored = put(is_new ? BlobFiles::Counted::no : BlobFiles::Counted::yes); !stored) {
    // Renamed, but perhaps not durably. Where it cannot be removed either, the next open does it.
    if (is_new) static_cast<void>(blobs_->remove_uncounted(blob.hash));
    return stored;
  }
  Status recorded = record();
  if (!recorded && is_new) static_cast<void>(blobs_->remove(blob.hash, blob.size_bytes));
  return recorded;
}

Status Shelf::save(const work::SaveHolding& holding) {
  const BlobHash& hash = holding.row.hash;
  Index::Removed replaced;
  BlobRow blob{hash, holding.blob.size()};
  const auto record = [&]() -> Status {
    Result<Index::Removed> saved = index_->save(holding.row, blob.size_bytes);
    if (!saved) return fail(saved.error());
    replaced = *saved;
    return {};
  };
  if (holding.blob.empty()) {
    const Result<std::optional<BlobRow>> known = index_->blob(hash);
    if (!known) return fail(known.error());
    const auto lease = leases_.find(hash);
    const bool is_there = *known || lease != leases_.end();
    if (!is_there || !blobs_->exists(hash)) return fail(missing(hash));
    blob.size_bytes = *known ? (*known)->size_bytes : lease->second.size_bytes;
    if (Status recorded = record(); !recorded) return recorded;
  } else {
    if (crypto::blake3(holding.blob.bytes()) != hash) {
      return fail(ErrorCode::internal, "blob " + to_hex(hash), "was given bytes of another hash");
    }
    const auto put = [&](BlobFiles::Counted counted) {
      return blobs_->put(hash, holding.blob.bytes(), counted);
    };
    if (Status stored = put_and_record(blob, put, record); !stored) return stored;
  }
  drop_file(replaced.unneeded);
  return {};
}

Result<bool> Shelf::remove(const work::RemoveHolding& holding) {
  const Result<Index::Removed> removed =
      with_reserve(reserve_, [&] { return index_->remove(holding.layer, holding.expert); });
  if (!removed) return fail(removed.error());
  drop_file(removed->unneeded);
  reserve_.make();
  return removed->existed;
}

void Shelf::drop_file(const std::optional<BlobRow>& unneeded) {
  if (!unneeded || leases_.contains(unneeded->hash)) return;
  // The change itself is safe. A file that cannot be removed now goes at the next open.
  static_cast<void>(blobs_->remove(unneeded->hash, unneeded->size_bytes));
}

Result<bool> Shelf::is_counted(const BlobHash& hash) {
  if (leases_.contains(hash)) return true;
  const Result<std::optional<BlobRow>> known = index_->blob(hash);
  if (!known) return fail(known.error());
  return known->has_value();
}

Result<work::Published> Shelf::publish(const BufferRef& bytes) {
  if (bytes.empty()) return fail(ErrorCode::invalid_params, "blob", "is empty");
  const BlobRow blob{crypto::blake3(bytes.bytes()), bytes.size()};
  const auto put = [&](BlobFiles::Counted counted) {
    return blobs_->put(blob.hash, bytes.bytes(), counted);
  };
  if (Status stored = put_and_record(blob, put, [&] { return index_->publish(blob); }); !stored) {
    return fail(stored.error());
  }
  return work::Published{blob.hash, blob.size_bytes};
}

Result<work::Published> Shelf::publish(BlobWriter writer) {
  if (writer.size_bytes() == 0) return fail(ErrorCode::invalid_params, "blob", "is empty");
  const BlobRow blob{writer.hash(), writer.size_bytes()};
  const auto put = [&](BlobFiles::Counted counted) {
    return blobs_->put(std::move(writer), counted);
  };
  if (Status stored = put_and_record(blob, put, [&] { return index_->publish(blob); }); !stored) {
    return fail(stored.error());
  }
  return work::Published{blob.hash, blob.size_bytes};
}

Result<bool> Shelf::quarantine(const BlobHash& hash) {
  const Result<bool> intact = blobs_->is_intact(hash);
  if (!intact) return fail(intact.error());
  if (*intact) return false;
  const Result<std::optional<BlobRow>> known = index_->blob(hash);
  if (!known) return fail(known.error());
  const Status forgotten = with_reserve(reserve_, [&] { return index_->forget(hash); });
  if (!forgotten) return fail(forgotten.error());
  const auto lease = leases_.extract(hash);
  std::uint64_t counted = lease ? lease.mapped().size_bytes : 0;
  if (*known) counted = (*known)->size_bytes;
  if (Status moved = blobs_->quarantine(hash, counted); !moved) return fail(moved.error());
  reserve_.make();
  return known->has_value();
}

Result<work::OpenedPartial> Shelf::open_partial(const work::OpenPartial& open) {
  if (open.size_bytes == 0) return fail(ErrorCode::invalid_params, "blob", "is empty");
  const Result<bool> counted = is_counted(open.hash);
  if (!counted) return fail(counted.error());
  if (*counted) {
    const Result<std::uint64_t> size = blobs_->size(open.hash);
    if (size) {
      Lease& lease = leases_[open.hash];
      lease.size_bytes = *size;
      ++lease.count;
      return work::OpenedPartial{.is_complete = true};
    }
  }
  Result<std::vector<work::ByteRange>> there = partials_->begin(open.hash, open.size_bytes);
  if (!there) return fail(there.error());
  return work::OpenedPartial{.there = std::move(*there)};
}

Result<work::WrittenPartial> Shelf::write_partial(const work::WritePartial& write) {
  const Result<BlobHash> hash = partials_->write(write.hash, write.offset, write.bytes.bytes());
  if (!hash) return fail(hash.error());
  return work::WrittenPartial{*hash};
}

Result<work::FinishedPartial> Shelf::finish_partial(const work::FinishPartial& finish) {
  const BlobHash& hash = finish.hash;
  const Result<bool> intact = partials_->is_intact(hash);
  if (!intact) return fail(intact.error());
  if (!*intact) return work::FinishedPartial{false};
  const Result<bool> counted = is_counted(hash);
  if (!counted) return fail(counted.error());
  Result<Partials::Whole> whole = partials_->take(hash);
  if (!whole) return fail(whole.error());
  const std::uint64_t size_bytes = whole->reservation.bytes();
  if (Status put = blobs_->adopt(hash, whole->path, std::move(whole->file)); !put) {
    static_cast<void>(blobs_->remove_path(whole->path));
    // Renamed, but perhaps not durably.
    if (!*counted) static_cast<void>(blobs_->remove_uncounted(hash));
    return fail(put.error());
  }
  if (!*counted) whole->reservation.keep();
  Lease& lease = leases_[hash];
  lease.size_bytes = size_bytes;
  ++lease.count;
  return work::FinishedPartial{true};
}

Status Shelf::close_partial(const work::ClosePartial& close) {
  return partials_->close(close.hash, close.leftover);
}

Result<bool> Shelf::release(const work::ReleaseBlob& release) {
  const auto it = leases_.find(release.hash);
  if (it == leases_.end() || it->second.count < release.leases) return false;
  const std::uint64_t size_bytes = it->second.size_bytes;
  if (release.is_kept) {
    if (Status kept = index_->publish({release.hash, size_bytes}); !kept) return fail(kept.error());
  }
  it->second.count -= release.leases;
  if (it->second.count > 0) return true;
  leases_.erase(it);
  const Result<bool> counted = is_counted(release.hash);
  if (!counted) return fail(counted.error());
  if (!*counted) drop_file(BlobRow{release.hash, size_bytes});
  return true;
}

}  // namespace tenzro::store
