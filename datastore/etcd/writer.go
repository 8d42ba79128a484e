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

// WriterConfig says what a Writer writes, and for whom.
//
// It is a plain value and is not changed by the Writer.
type WriterConfig struct {
	// Store to write to. Required.
	Store *Store
	// Owner names the stream: what it held before and holds no more is deleted, and no other stream
	// touches what it holds. Required; 1 to 265 letters, digits and -_.:@+~.
	Owner string
	// Decode reads a stream: the resources in it, and what is wrong with the others. Manifests are
	// read with manifest.Decode of the module kubernetes. Default: policy.Decode, one resource.
	Decode func(file string, data []byte) ([]policy.Resource, []error)
	// Ignore says of a problem that it is none, and the rest is to be written nonetheless. Nil:
	// none is ignored.
	Ignore func(err error) bool
	// Adopt lets the stream take over objects that others own, or nobody.
	Adopt bool
	// AllowEmpty lets a stream be empty, so that all that it held is deleted. Otherwise that is an
	// error, as it is mostly a file that was lost.
	AllowEmpty bool
}

// Writer keeps the store equal to a stream of manifests.
//
// It is safe for concurrent use; two at once of the same owner may meet as ErrConflict.
type Writer struct {
	config WriterConfig
}

// NewWriter returns a writer. It does not speak to the store. It fails if the configuration is
// invalid.
func NewWriter(cfg WriterConfig) (*Writer, error) {
	var errs []error
	if cfg.Store == nil {
		errs = append(errs, errors.New("etcd: WriterConfig.Store: required"))
	}
	if err := checkSegment("Owner", cfg.Owner); err != nil {
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

// Result says what a Writer did.
type Result struct {
	// Objects is how many objects the stream has, and Pruned which ones were deleted, sorted by
	// key.
	Objects int
	Pruned  []policy.Key
	// Revision that the store is at now. Where nothing was to be written no node hears of it: see
	// Store.Barrier.
	Revision Revision
}

// Write makes the store hold what the stream holds. Where anything is wrong with the stream,
// nothing is written.
//
// Up to MaxWrites objects, written and deleted together, are one transaction. A longer stream is
// several, in this order: what policies refer to, policies, endpoints, each in the order of their
// names, and then the deletions the other way round; so that no endpoint is ever there before the
// policies that it comes with. Where it fails in between, Write does the rest when it is called
// again. Objects that are as they should be are not written.
//
// Errors: a *StreamError; ErrEmptyStream; ErrOwned; those of Store.Commit.
func (w *Writer) Write(ctx context.Context, file string, data []byte) (Result, error) {
	wanted, err := w.read(file, data)
	if err != nil {
		return Result{}, err
	}
	held, err := w.held(ctx)
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
	gone, dangling, err := w.gone(ctx, held, wanted)
	if err != nil {
		return Result{}, err
	}
	for _, g := range gone {
		result.Pruned = append(result.Pruned, g.Key)
	}
	slices.SortFunc(result.Pruned, policy.Key.Compare)
	result.Revision, err = w.commit(ctx, append(writes, gone...), dangling)
	return result, err
}

// commit makes the writes, in as few transactions as there can be.
func (w *Writer) commit(ctx context.Context, writes []ownedWrite, dangling []note) (revision Revision, err error) {
	for done := false; !done; done = len(writes)+len(dangling) == 0 {
		t := &transaction{client: w.config.Store.client, adopt: w.config.Adopt}
		n := min(len(writes), MaxWrites)
		t.writes, writes = writes[:n], writes[n:]
		n = min(len(dangling), MaxWrites-n)
		t.dangle, dangling = dangling[:n], dangling[n:]
		if revision, err = t.commit(ctx); err != nil {
			return 0, err
		}
	}
	return revision, nil
}

// read decodes and checks the whole stream.
func (w *Writer) read(file string, data []byte) (map[policy.Key]policy.Resource, error) {
	resources, problems := w.config.Decode(file, data)
	problems = slices.DeleteFunc(slices.Clone(problems), w.config.Ignore)
	wanted := map[policy.Key]policy.Resource{}
	for _, r := range resources {
		if policy.Equal(r, nil) {
			problems = append(problems, errors.New("decoded to nothing"))
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

// held returns what is noted to be the owner's.
func (w *Writer) held(ctx context.Context) ([]note, error) {
	var notes []note
	var problem error
	prefix := partOwners + w.config.Owner + "/"
	_, err := w.config.Store.scan(ctx, prefix, func(kv *mvccpb.KeyValue) {
		rel := w.config.Store.client.rel(kv.Key)
		key, err := parsePath(rel[len(prefix):])
		if err != nil && problem == nil {
			problem = &ValueError{Key: rel, Err: err}
		}
		notes = append(notes, note{owner: w.config.Owner, key: key, revision: kv.ModRevision})
	})
	return notes, cmp.Or(err, problem)
}

// gone returns deletions for what the owner holds and the stream does not, and the notes of what is
// not the owner's any more: it was deleted, or somebody else has it now.
func (w *Writer) gone(
	ctx context.Context, held []note, wanted map[policy.Key]policy.Resource,
) (gone []ownedWrite, dangling []note, err error) {
	for _, n := range held {
		if wanted[n.key] != nil {
			continue
		}
		o, err := w.config.Store.Get(ctx, n.key)
		switch {
		case err == nil && o.Owner == w.config.Owner:
			gone = append(gone, ownedWrite{Write: Write{Update: policy.Update{Key: n.key}, Expect: o.Revision}})
		case err == nil || errors.Is(err, ErrNotFound):
			dangling = append(dangling, n)
		default:
			return nil, nil, err
		}
	}
	slices.SortFunc(gone, func(a, b ownedWrite) int { return compareInOrder(b.Key, a.Key) })
	return gone, dangling, nil
}

func inOrder(a, b policy.Resource) int { return compareInOrder(a.Key(), b.Key()) }

// compareInOrder puts what others need before them, and an endpoint after all that is to protect
// it.
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
