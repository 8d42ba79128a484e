// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// History identifies the data that a Source has read: one list of a store, and the changes after it. A
// revision means nothing without it, since a database that was lost or restored uses the same
// numbers again.
//
// A history ends, and the Source lists everything again, in these cases:
//
//   - The mark is another one: the database was lost and rebuilt, or another one has the address.
//     Each Store.Init writes a random id into the mark that it makes.
//   - The cluster's id is another one.
//   - A revision or a raft term is lower than before: a backup was restored. A restore by etcdutl
//     begins at the lowest term, and each election raises it.
//   - The newest key that was read has another value or revision, now or at its revision, or the key
//     of the node's report is not as its Reporter wrote it: a backup was restored and has reached
//     the same revisions since, or the report expired while the node was cut off.
//
// Two cases are not detected. In both, a backup was restored under the same cluster id. Before the
// node connects, the restored servers have reached the raft term and the revision that the node has
// read:
//
//   - The node wrote no report between the backup and the restore, or has no Reporter, and the backup
//     has the newest key that it read: the node listed the store after the backup, and only deletions
//     came in between. The deleted objects stay absent until the node lists again. The same holds if
//     the restored servers have changed that key and compacted its revision.
//   - The backup has the node's report. Until its lease expires, the report counts as one about the
//     restored objects.
//
// A restore with raised revisions or under another cluster id avoids both. Otherwise, a restart of
// each node's Source ends the first case, and the second ends by itself.
//
// The zero History is in no store. It is safe for concurrent use.
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

// finish ends h: no Reporter reports a revision of it any more, and a Source that reads it lists
// the store again.
func (h *History) finish() {
	if h.done != nil {
		h.once.Do(func() { close(h.done) })
	}
}

// finished reports whether h has ended. The zero History has.
func (h *History) finished() bool {
	select {
	case <-h.done:
		return true
	default:
		return h.done == nil
	}
}
