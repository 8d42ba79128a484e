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
// restored uses the same revisions again.
//
// A History ends if the store no longer has this data. The Source then lists everything again. The
// Source and the Reporter look for these signs:
//
//   - The mark (the key that Store.Init creates) has another value or revision.
//   - The etcd cluster has another id.
//   - The revision or the raft term is lower than before.
//   - Of the keys that the Source has read, the one with the highest revision is missing, or has
//     another value at this revision.
//   - The key of the node's report is not as the node's Reporter wrote it.
//
// If a backup is restored under the same cluster id, a node may miss the restore. To be sure,
// restart each node's Source: it then lists everything again. See "To restore a backup" in
// docs/datastore.md.
//
// If a Report has the zero History, the Reporter writes it without a revision. A History is safe
// for concurrent use.
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
