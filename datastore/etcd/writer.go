// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/wayleave/wayleave/policy"
)

// WriterConfig configures a Writer. The Writer does not change it.
type WriterConfig struct {
	// Store to write to. Required.
	Store *Store
	// Owner is the name of the stream. The Writer deletes objects that the stream had before and no
	// longer has. Writers of other streams do not change the objects of this stream, unless their
	// Adopt is set. Required; 1 to 265 letters, digits and -_.:@+~.
	Owner string
	// Decode decodes a stream. It returns the resources, and an error for each object that it
	// cannot decode. For manifests, use manifest.Decode of the module kubernetes. The default
	// decodes one resource with policy.Decode.
	Decode func(file string, data []byte) ([]policy.Resource, []error)
	// Ignore reports whether the stream is written despite this error of Decode. Nil ignores no
	// error.
	Ignore func(err error) bool
	// Adopt makes this stream the owner of all its objects. By default, Write returns an error if
	// the store has one of these objects with another owner or without an owner.
	Adopt bool
	// AllowEmpty permits a stream without objects. Write then deletes all objects that the stream
	// had before. The default is an error, because an empty stream is usually a mistake.
	AllowEmpty bool
}

// Writer keeps the objects of one owner in the store equal to a stream of manifests. It writes the
// objects of the stream, and deletes objects that the stream no longer has.
//
// It is safe for concurrent use. If two Writers write for the same owner at the same time, one may
// fail with ErrConflict.
type Writer struct {
	config WriterConfig
}

// NewWriter returns a Writer. It sends no request. Errors: an invalid configuration.
func NewWriter(cfg WriterConfig) (*Writer, error) {
	var errs []error
	if cfg.Store == nil {
		errs = append(errs, errors.New("etcd: WriterConfig.Store: required"))
	}
	if err := checkSegment("WriterConfig.Owner", cfg.Owner); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Decode == nil {
		cfg.Decode = decodeOne
	}
	if cfg.Ignore == nil {
		cfg.Ignore = func(error) bool { return false }
	}
	return &Writer{config: cfg}, nil
}

func decodeOne(_ string, data []byte) ([]policy.Resource, []error) {
	r, err := policy.Decode(data)
	if err != nil {
		return nil, []error{err}
	}
	if p, ok := r.(*policy.Policy); ok {
		if doubt := p.Doubts(); doubt != nil {
			return nil, []error{doubt}
		}
	}
	return []policy.Resource{r}, nil
}

// Result is the result of Writer.Write.
type Result struct {
	// Objects is the number of objects in the stream. Pruned has the keys of the deleted objects,
	// sorted.
	Objects int
	Pruned  []policy.Key
	// Revision of the store after the write. If nothing had to be written, no Source receives this
	// revision. To wait for nodes in this case, use the revision of Store.Barrier instead.
	Revision Revision
}

// Write makes the objects of the owner equal to those of the stream. If the stream has an error,
// Write writes nothing. It does not write objects that are already the same.
//
// Write uses one transaction if it writes and deletes at most MaxWrites objects. Otherwise it uses
// several: it writes the objects to which policies refer, then policies, then endpoints, and
// deletes in the reverse order. So there is never an endpoint without its policies. If Write fails
// in between, call it again: it writes the rest.
//
// Errors: a *StreamError; ErrEmptyStream; ErrOwned; those of Store.Commit.
func (w *Writer) Write(ctx context.Context, file string, data []byte) (Result, error) {
	wanted, err := w.read(file, data)
	if err != nil {
		return Result{}, err
	}
	owned, err := w.ownerKeys(ctx)
	if err != nil {
		return Result{}, err
	}
	result := Result{Objects: len(wanted)}
	var writes []ownedWrite
	for _, r := range slices.SortedFunc(maps.Values(wanted), inOrder) {
		writes = append(writes, ownedWrite{
			Write: Write{Update: policy.Update{Key: r.Key(), Resource: r}}, owner: w.config.Owner,
		})
	}
	gone, stale, err := w.deletions(ctx, owned, wanted)
	if err != nil {
		return Result{}, err
	}
	for _, g := range gone {
		result.Pruned = append(result.Pruned, g.Key)
	}
	slices.SortFunc(result.Pruned, policy.Key.Compare)
	result.Revision, err = w.commit(ctx, append(writes, gone...), stale)
	return result, err
}

// commit makes the writes in as few transactions as possible.
func (w *Writer) commit(ctx context.Context, writes []ownedWrite, stale []ownerKey) (revision Revision, err error) {
	for done := false; !done; done = len(writes)+len(stale) == 0 {
		t := &transaction{client: w.config.Store.client, adopt: w.config.Adopt}
		n := min(len(writes), MaxWrites)
		t.writes, writes = writes[:n], writes[n:]
		n = min(len(stale), MaxWrites-n)
		t.staleOwnerKeys, stale = stale[:n], stale[n:]
		if revision, err = t.commit(ctx); err != nil {
			return 0, err
		}
	}
	return revision, nil
}

// read decodes and validates the whole stream.
func (w *Writer) read(file string, data []byte) (map[policy.Key]policy.Resource, error) {
	resources, problems := w.config.Decode(file, data)
	problems = slices.DeleteFunc(slices.Clone(problems), w.config.Ignore)
	wanted := map[policy.Key]policy.Resource{}
	for _, r := range resources {
		if policy.Equal(r, nil) {
			problems = append(problems, errors.New("the decoder returned a nil resource"))
			continue
		}
		r = policy.Canonical(r)
		if err := cmp.Or(r.Validate(), checkKey(r.Key())); err != nil {
			problems = append(problems, err)
		}
		if wanted[r.Key()] != nil {
			problems = append(problems, fmt.Errorf("%s: given twice", r.Key()))
		}
		wanted[r.Key()] = r
	}
	switch {
	case len(problems) > 0:
		return nil, &StreamError{File: file, Problems: problems}
	case len(wanted) == 0 && !w.config.AllowEmpty:
		return nil, fmt.Errorf("etcd: write stream %s: %w", file, ErrEmptyStream)
	}
	return wanted, nil
}

// ownerKeys returns the owner keys of the Writer's owner.
func (w *Writer) ownerKeys(ctx context.Context) ([]ownerKey, error) {
	var keys []ownerKey
	var problem error
	prefix := partOwners + w.config.Owner + "/"
	_, err := w.config.Store.scan(ctx, prefix, func(kv *mvccpb.KeyValue) {
		rel := w.config.Store.client.rel(kv.Key)
		key, err := parsePath(rel[len(prefix):])
		if err != nil && problem == nil {
			problem = &ValueError{Key: rel, Err: err}
		}
		keys = append(keys, ownerKey{owner: w.config.Owner, key: key, revision: kv.ModRevision})
	})
	return keys, cmp.Or(err, problem)
}

// deletions returns the deletions of objects that the owner has and the stream lacks. It also
// returns stale owner keys, whose objects were deleted or have another owner.
func (w *Writer) deletions(
	ctx context.Context, owned []ownerKey, wanted map[policy.Key]policy.Resource,
) (gone []ownedWrite, stale []ownerKey, err error) {
	for _, n := range owned {
		if wanted[n.key] != nil {
			continue
		}
		o, err := w.config.Store.Get(ctx, n.key)
		switch {
		case err == nil && o.Owner == w.config.Owner:
			gone = append(gone, ownedWrite{Write: Write{Update: policy.Update{Key: n.key}, Expect: o.Revision}})
		case err == nil || errors.Is(err, ErrNotFound):
			stale = append(stale, n)
		default:
			return nil, nil, err
		}
	}
	slices.SortFunc(gone, func(a, b ownedWrite) int { return compareInOrder(b.Key, a.Key) })
	return gone, stale, nil
}

func inOrder(a, b policy.Resource) int { return compareInOrder(a.Key(), b.Key()) }

// compareInOrder orders referents before the objects that refer to them, and endpoints last.
func compareInOrder(a, b policy.Key) int {
	return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), a.Compare(b))
}

func rank(kind policy.Kind) int {
	switch kind {
	case policy.KindPolicy, policy.KindStagedPolicy:
		return 1
	case policy.KindWorkloadEndpoint, policy.KindHostEndpoint:
		return 2
	}
	return 0
}
