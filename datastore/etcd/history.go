// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// History identifies the data that a Source has read: one list of a store, and the changes after
// the list. A revision means nothing without its History, because a database that was lost or
// restored uses the same numbers again.
//
// The Source and the Reporter compare what they have read and written with the store. If the store
// no longer has the same data, the history ends, and the Source lists everything again. The history
// ends in each of these cases:
//
//   - The mark has another value or revision. (The mark is the key that Store.Init creates. Its
//     value is a random id.) The reason is that the database was lost and rebuilt, or that the
//     address leads to another database.
//   - The etcd cluster has another id.
//   - The revision or the raft term is lower than before. The reason is that a backup was restored:
//     a restore by etcdutl begins at the lowest term, and each election raises the term.
//   - The store does not have the newest key that the Source has read, with the same value at the
//     same revision. The reason is that a backup was restored, and that later writes have raised
//     the revision of the store to that of the Source again.
//   - The key of the node's report is not as the node's Reporter wrote it. The reason is that a
//     backup was restored, or that the report expired while the node was cut off.
//
// A restored backup may stay undetected if it was restored under the same cluster id, and if the
// node connects to the restored servers only after these servers have reached the raft term and the
// revision that the node has read. There are three such cases:
//
//   - The newest key that the Source has read is also in the backup. An example: after the backup
//     is made, objects are deleted, and nothing else is written. Then the Source lists the store.
//     The backup is restored before the node writes a report. Now the deleted objects are in the
//     store again, but not on the node.
//   - The newest key that the Source has read is missing from the backup, or is written again after
//     the restore. Usually the Source detects this by reading the key at the revision that it
//     remembers. But it cannot read that revision if etcd has compacted it. Then the node may have
//     objects that the store lacks, and may lack objects that the store has.
//   - The backup has a report of the node. Until the lease of the report expires, the report counts
//     as a report about the restored objects.
//
// To prevent these cases, raise the revisions or change the cluster id when you restore a backup.
// If you did neither, restart each node's Source: it then lists everything again, which ends the
// first two cases. The third case ends by itself.
//
// The zero History belongs to no store: if a Report has the zero History, the Reporter writes it
// without a revision. A History is safe for concurrent use.
type History struct {
	cluster, term uint64 // at the beginning of the list
	mark          string // the value of the mark
	markAt        int64  // and its revision

	once sync.Once
	done chan struct{} // closed at the end of the history
}

func newHistory(at *etcdserverpb.ResponseHeader, mark *mvccpb.KeyValue) *History {
	return &History{
		cluster: at.ClusterId, term: at.RaftTerm, mark: string(mark.Value), markAt: mark.ModRevision,
		done: make(chan struct{}),
	}
}

// contradicts reports whether a store with this response header cannot contain the revision of h.
func (h *History) contradicts(revision int64, now *etcdserverpb.ResponseHeader) bool {
	return h.cluster != now.ClusterId || now.RaftTerm < h.term || now.Revision < revision
}

// has reports whether the mark is that of h.
func (h *History) has(mark *mvccpb.KeyValue) bool {
	return h.mark == string(mark.Value) && h.markAt == mark.ModRevision
}

// isMarked returns the condition of a transaction that the mark is that of h.
func (h *History) isMarked(key string) []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(key), "=", h.mark),
		clientv3.Compare(clientv3.ModRevision(key), "=", h.markAt),
	}
}

// finish ends h: no Reporter reports a revision of h any more, and a Source that reads this history
// lists the store again.
func (h *History) finish() {
	if h.done != nil {
		h.once.Do(func() { close(h.done) })
	}
}

// finished reports whether h has ended. The zero History counts as ended.
func (h *History) finished() bool {
	select {
	case <-h.done:
		return true
	default:
		return h.done == nil
	}
}
