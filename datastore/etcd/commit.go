// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

var _ datastore.Sink = (*Store)(nil)

// MaxWrites is the maximum number of writes in a transaction. etcd allows 128 operations by
// default, and a write may need two.
const MaxWrites = 60

// Write is one object to be written.
type Write struct {
	// Update is the new state of the object. A nil Resource deletes it.
	policy.Update
	// Expect is the revision that the object must have, or Absent or Any.
	Expect Revision
}

// Put writes an object if the stored object has the expected revision, and returns the new revision
// of the store. The object keeps its owner (see WriterConfig.Owner).
//
// AppliedAt returns which nodes have applied the returned revision. But if the stored object is
// already the same, Put writes nothing, and nodes may never report the revision. Then call
// AppliedAt with the revision that Barrier returns.
//
// Errors:
//
//   - *policy.ValidationError or ErrConflict.
//   - A *ValueError that wraps ErrNewer: this version cannot read the stored object. Put does not
//     overwrite such an object, but Delete can delete it.
//   - Errors of the client: it is not known whether the object was written.
func (s *Store) Put(ctx context.Context, r policy.Resource, expect Revision) (Revision, error) {
	var u policy.Update
	if !policy.Equal(r, nil) {
		u = policy.Update{Key: policy.Canonical(r).Key(), Resource: r}
	}
	return s.Commit(ctx, []Write{{Update: u, Expect: expect}})
}

// Delete deletes an object, and returns the new revision of the store. The parameter expect is the
// revision that the object must have, or Any. With Any, Delete deletes the object whatever its
// revision, and returns no error if the object does not exist. Errors: ErrConflict, or those of the
// client.
func (s *Store) Delete(ctx context.Context, key policy.Key, expect Revision) (Revision, error) {
	return s.Commit(ctx, []Write{{Update: policy.Update{Key: key}, Expect: expect}})
}

// Update implements datastore.Sink. It makes all updates in one transaction, whatever revisions the
// stored objects have. If there are more than MaxWrites updates, it makes none and returns
// ErrTooMany. Other errors: as for Commit.
func (s *Store) Update(ctx context.Context, updates []policy.Update) error {
	writes := make([]Write, len(updates))
	for i, u := range updates {
		writes[i].Update = u
	}
	_, err := s.Commit(ctx, writes)
	return err
}

// Commit makes all writes in one transaction, and returns the new revision of the store. If one
// write fails, none is made. A Source sends all these changes to its receiver in one call. Errors:
// those of Put; ErrTooMany if there are more than MaxWrites writes; datastore.ErrKeyMismatch.
func (s *Store) Commit(ctx context.Context, writes []Write) (Revision, error) {
	t := &transaction{client: s.client}
	for _, w := range writes {
		t.writes = append(t.writes, ownedWrite{Write: w})
	}
	return t.commit(ctx)
}

// ownedWrite is a Write of a stream.
type ownedWrite struct {
	Write
	owner string // the new owner of the object; if it is empty, the object keeps its owner
}

// ownerKey is a key that records that an owner has an object.
type ownerKey struct {
	owner    string
	key      policy.Key
	revision int64
}

// transaction reads the objects to write, and writes them if they have not changed since.
type transaction struct {
	client         *Client
	writes         []ownedWrite
	staleOwnerKeys []ownerKey // owner keys to delete
	adopt          bool       // whether objects of other owners may be written
}

func (t *transaction) commit(ctx context.Context) (Revision, error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	etcd, err := t.client.conn(ctx)
	if err != nil {
		return 0, err
	}
	ctx, cancel := t.client.request(ctx)
	defer cancel()
	for {
		kvs, at, err := t.read(ctx, etcd)
		if err != nil {
			return 0, err
		}
		conditions, ops, err := t.plan(kvs)
		if err != nil {
			return 0, err
		}
		if len(ops) == 0 {
			return Revision(at), nil
		}
		response, err := etcd.Txn(ctx).If(conditions...).Then(ops...).Commit()
		if err != nil {
			return 0, fmt.Errorf("etcd: write: %w", t.client.explain(err))
		}
		if response.Succeeded {
			return Revision(response.Header.Revision), nil
		}
		// Another writer has changed an object meanwhile. Read again, and compare the expected
		// revisions.
	}
}

// check validates the writes, and makes the resources canonical.
func (t *transaction) check() error {
	if len(t.writes)+len(t.staleOwnerKeys) > MaxWrites {
		return fmt.Errorf("etcd: write: %w: %d of %d", ErrTooMany, len(t.writes)+len(t.staleOwnerKeys), MaxWrites)
	}
	seen := map[policy.Key]bool{}
	for i := range t.writes {
		w := &t.writes[i]
		if !policy.Equal(w.Resource, nil) {
			w.Resource = policy.Canonical(w.Resource)
			if err := w.Resource.Validate(); err != nil {
				return fmt.Errorf("etcd: write: %w", err)
			}
			if have := w.Resource.Key(); have != w.Key {
				return fmt.Errorf("etcd: write %s: %w %s", w.Key, datastore.ErrKeyMismatch, have)
			}
		} else {
			w.Resource = nil
		}
		if err := checkKey(w.Key); err != nil {
			return err
		}
		if seen[w.Key] {
			return fmt.Errorf("etcd: write %s: written twice in one transaction", w.Key)
		}
		seen[w.Key] = true
	}
	return nil
}

// read returns the mark, the objects to write, and the store's revision. A missing key is nil.
func (t *transaction) read(ctx context.Context, etcd *clientv3.Client) ([]*mvccpb.KeyValue, int64, error) {
	ops := []clientv3.Op{clientv3.OpGet(t.client.key(mark))}
	for _, w := range t.writes {
		ops = append(ops, clientv3.OpGet(t.client.key(partState+path(w.Key))))
	}
	response, err := etcd.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return nil, 0, fmt.Errorf("etcd: write: %w", t.client.explain(err))
	}
	return first(response.Responses), response.Header.Revision, nil
}

// first returns the first key of each response; nil if it has none.
func first(responses []*etcdserverpb.ResponseOp) []*mvccpb.KeyValue {
	kvs := make([]*mvccpb.KeyValue, len(responses))
	for i, r := range responses {
		if found := r.GetResponseRange().Kvs; len(found) > 0 {
			kvs[i] = found[0]
		}
	}
	return kvs
}

// plan returns the conditions and operations of the transaction, given the keys that the store has.
func (t *transaction) plan(kvs []*mvccpb.KeyValue) ([]clientv3.Cmp, []clientv3.Op, error) {
	if kvs[0] != nil {
		if err := checkMark(kvs[0].Value); err != nil {
			return nil, nil, err
		}
	}
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(t.client.key(mark)), "=", modRevision(kvs[0]))}
	var ops []clientv3.Op
	for i, w := range t.writes {
		kv := kvs[i+1]
		if have := modRevision(kv); w.Expect > 0 && int64(w.Expect) != have || w.Expect == Absent && have != 0 {
			return nil, nil, &ConflictError{Key: w.Key, Expected: w.Expect, Actual: cmp.Or(Revision(have), Absent)}
		}
		more, err := t.ops(w, kv)
		if err != nil {
			return nil, nil, err
		}
		ops = append(ops, more...)
		conditions = append(conditions,
			clientv3.Compare(clientv3.ModRevision(t.client.key(partState+path(w.Key))), "=", modRevision(kv)))
	}
	for _, n := range t.staleOwnerKeys {
		key := t.client.key(ownerPath(n.owner, n.key))
		// Only if no other transaction has written the owner key again, because then its object
		// exists.
		same := clientv3.Compare(clientv3.ModRevision(key), "=", n.revision)
		ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{same}, []clientv3.Op{clientv3.OpDelete(key)}, nil))
	}
	return conditions, ops, nil
}

// ops returns the operations of one write; none if the store already has that value.
func (t *transaction) ops(w ownedWrite, kv *mvccpb.KeyValue) ([]clientv3.Op, error) {
	key := t.client.key(partState + path(w.Key))
	var have object
	if kv != nil {
		var err error
		if have, err = decodeObject(w.Key, kv.Value); err != nil && w.Resource != nil {
			return nil, &ValueError{Key: partState + path(w.Key), Err: err}
		}
	}
	switch {
	case w.Resource == nil && kv == nil:
		return nil, nil
	case w.Resource == nil:
		ops := []clientv3.Op{clientv3.OpDelete(key)}
		if have.owner != "" {
			ops = append(ops, clientv3.OpDelete(t.client.key(ownerPath(have.owner, w.Key))))
		}
		return ops, nil
	case w.owner != "" && kv != nil && have.owner != w.owner && !t.adopt:
		return nil, &OwnerError{Key: w.Key, Owner: have.owner}
	}
	want := object{owner: cmp.Or(w.owner, have.owner), resource: w.Resource}
	if kv != nil && want.owner == have.owner && policy.Equal(want.resource, have.resource) {
		return nil, nil
	}
	value, err := encodeObject(want)
	if err != nil {
		return nil, fmt.Errorf("etcd: write: %w", err)
	}
	ops := []clientv3.Op{clientv3.OpPut(key, string(value))}
	if want.owner != "" {
		ops = append(ops, clientv3.OpPut(t.client.key(ownerPath(want.owner, w.Key)), ""))
	}
	return ops, nil
}

func modRevision(kv *mvccpb.KeyValue) int64 {
	if kv == nil {
		return 0
	}
	return kv.ModRevision
}

func ownerPath(owner string, key policy.Key) string { return partOwners + owner + "/" + path(key) }
