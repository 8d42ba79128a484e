// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/wayleave/wayleave/policy"
)

// Revision is a revision of the store. Each transaction increases it. An object has the revision of
// the transaction that last wrote it.
type Revision int64

// Expectations of a writer, besides a revision.
const (
	// Any accepts every revision, and a missing object.
	Any Revision = 0
	// Absent means that the object does not exist.
	Absent Revision = -1
)

// String returns the number, or "any" or "absent".
func (r Revision) String() string {
	switch r {
	case Any:
		return "any"
	case Absent:
		return "absent"
	}
	return strconv.FormatInt(int64(r), 10)
}

// StoreConfig configures a Store. The Store does not change it.
type StoreConfig struct {
	// Client that reads and writes the objects. Required.
	Client *Client
	// PageSize is the number of objects that List reads with one request. Default: 1000.
	PageSize int
	// Recheck is the interval at which WatchSettings reads the settings, in addition to its watch.
	// Default: 1 min.
	Recheck time.Duration
}

// Store reads and writes the objects of a cluster. It validates each object before it writes it. It
// never overwrites a value that a newer version of this package wrote.
//
// It is safe for concurrent use, also by several programs.
type Store struct {
	client  *Client
	page    int64
	recheck time.Duration
}

// NewStore returns a Store. It sends no request. Errors: an invalid configuration.
func NewStore(cfg StoreConfig) (*Store, error) {
	cfg.PageSize = cmp.Or(cfg.PageSize, 1000)
	cfg.Recheck = cmp.Or(cfg.Recheck, time.Minute)
	var errs []error
	if cfg.Client == nil {
		errs = append(errs, errors.New("etcd: StoreConfig.Client: required"))
	}
	if cfg.PageSize < 0 || cfg.Recheck < 0 {
		errs = append(errs, errors.New("etcd: StoreConfig.PageSize and Recheck: must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Store{client: cfg.Client, page: int64(cfg.PageSize), recheck: cfg.Recheck}, nil
}

// Object is a resource in the store. Do not change the resource: readers may share it.
type Object struct {
	// Resource is canonical.
	Resource policy.Resource
	// Revision of the object.
	Revision Revision
	// Owner is the name of the stream for which a Writer wrote the object: see WriterConfig.Owner.
	// It is empty if no Writer owns the object.
	Owner string
}

// Init declares that the content of the store is complete: it creates the mark, a key whose value
// is a new random id (see History). Sources wait until the mark exists. If there is a mark already,
// Init does nothing. Errors: ErrNewer, or those of the client.
func (s *Store) Init(ctx context.Context) error {
	value, err := encodeValue(markValue{History: rand.Text()})
	if err != nil {
		return err
	}
	etcd, ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	key := s.client.key(mark)
	response, err := etcd.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, string(value))).
		Else(clientv3.OpGet(key)).Commit()
	switch {
	case err != nil:
		return fmt.Errorf("etcd: initialise: %w", s.client.explain(err))
	case response.Succeeded:
		return nil
	}
	return checkMark(response.Responses[0].GetResponseRange().Kvs[0].Value)
}

// Suspend undoes Init: it deletes the mark, the key that Init creates. Without the mark, every
// Source keeps its state. So you can fill a store again, and no node receives only a part of the
// objects. Call Init when the store is complete. Errors: those of the client; a *ValueError that
// wraps ErrNewer if a newer version created the mark.
func (s *Store) Suspend(ctx context.Context) error {
	etcd, ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	key := s.client.key(mark)
	for {
		there, err := etcd.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("etcd: suspend: %w", s.client.explain(err))
		}
		if len(there.Kvs) == 0 {
			return nil
		}
		if err := checkMark(there.Kvs[0].Value); errors.Is(err, ErrNewer) {
			return err
		}
		same := clientv3.Compare(clientv3.ModRevision(key), "=", there.Kvs[0].ModRevision)
		taken, err := etcd.Txn(ctx).If(same).Then(clientv3.OpDelete(key)).Commit()
		if err != nil {
			return fmt.Errorf("etcd: suspend: %w", s.client.explain(err))
		}
		if taken.Succeeded {
			return nil
		}
	}
}

// Barrier writes one small key, and returns the revision of this write. So the revision is later
// than those of all earlier writes, and every Source receives it, even if no object has changed.
// AppliedAt returns which nodes have applied it. Errors: a *ValueError that wraps ErrNewer, or
// those of the client.
func (s *Store) Barrier(ctx context.Context) (Revision, error) {
	value, err := encodeValue(struct{}{})
	if err != nil {
		return 0, err
	}
	etcd, ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer cancel()
	for {
		there, err := etcd.Get(ctx, s.client.key(mark))
		if err != nil {
			return 0, fmt.Errorf("etcd: barrier: %w", s.client.explain(err))
		}
		at := int64(0)
		if len(there.Kvs) > 0 {
			if err := checkMark(there.Kvs[0].Value); err != nil {
				return 0, err
			}
			at = there.Kvs[0].ModRevision
		}
		written, err := etcd.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(s.client.key(mark)), "=", at)).
			Then(clientv3.OpPut(s.client.key(barrier), string(value))).Commit()
		if err != nil {
			return 0, fmt.Errorf("etcd: barrier: %w", s.client.explain(err))
		}
		if written.Succeeded {
			return Revision(written.Header.Revision), nil
		}
	}
}

// checkMark checks the value of the mark.
func checkMark(value []byte) error {
	if _, err := members(value, "history"); err != nil {
		return &ValueError{Key: mark, Err: err}
	}
	return nil
}

// begin returns the client and the context of a request.
func (s *Store) begin(ctx context.Context) (*clientv3.Client, context.Context, context.CancelFunc, error) {
	etcd, err := s.client.conn(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := s.client.request(ctx)
	return etcd, ctx, cancel, nil
}

// Get returns an object. Errors: ErrNotFound; those of the client; a *ValueError, which may wrap
// ErrNewer.
func (s *Store) Get(ctx context.Context, key policy.Key) (Object, error) {
	if err := checkKey(key); err != nil {
		return Object{}, err
	}
	etcd, ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return Object{}, err
	}
	defer cancel()
	response, err := etcd.Get(ctx, s.client.key(partState+path(key)))
	switch {
	case err != nil:
		return Object{}, fmt.Errorf("etcd: get %s: %w", key, s.client.explain(err))
	case len(response.Kvs) == 0:
		return Object{}, fmt.Errorf("etcd: get %s: %w", key, ErrNotFound)
	}
	return s.object(response.Kvs[0])
}

func (s *Store) object(kv *mvccpb.KeyValue) (Object, error) {
	rel := s.client.rel(kv.Key)
	key, err := parsePath(rel[len(partState):])
	if err != nil {
		return Object{}, &ValueError{Key: rel, Err: err}
	}
	o, err := decodeObject(key, kv.Value)
	if err != nil {
		return Object{}, &ValueError{Key: rel, Err: err}
	}
	return Object{Resource: o.resource, Revision: Revision(kv.ModRevision), Owner: o.owner}, nil
}

// Query selects objects to list.
type Query struct {
	// Kind of the objects. Empty means all kinds.
	Kind policy.Kind
	// Namespace of the objects; it requires Kind. Empty means all namespaces, and global objects.
	Namespace string
}

// List is the result of a query, read at one revision.
type List struct {
	// Objects sorted by key.
	Objects []Object
	// Problems are values that cannot be used, each a *ValueError.
	Problems []error
	// Revision of the store at which the objects were read.
	Revision Revision
}

// List returns the objects that a query selects. It reads them in pages, all at one revision.
// Errors: those of the client. If the error wraps rpctypes.ErrCompacted, the server compacted the
// revision before List had read all pages: call List again.
func (s *Store) List(ctx context.Context, q Query) (List, error) {
	prefix := partState
	if q.Kind != "" {
		prefix += string(q.Kind) + "/"
	}
	if q.Namespace != "" {
		if q.Kind == "" {
			return List{}, errors.New("etcd: list: Namespace needs a Kind")
		}
		prefix += q.Namespace + "/"
	}
	var list List
	revision, err := s.scan(ctx, prefix, func(kv *mvccpb.KeyValue) {
		if !isObject(s.client.rel(kv.Key)) {
			return
		}
		o, err := s.object(kv)
		if err != nil {
			list.Problems = append(list.Problems, err)
			return
		}
		list.Objects = append(list.Objects, o)
	})
	if err != nil {
		return List{}, err
	}
	list.Revision = Revision(revision)
	return list, nil
}

// scan reads all keys with a prefix, in pages at one revision, which it returns.
func (s *Store) scan(ctx context.Context, prefix string, each func(*mvccpb.KeyValue)) (revision int64, err error) {
	etcd, err := s.client.conn(ctx)
	if err != nil {
		return 0, err
	}
	from := s.client.key(prefix)
	end := clientv3.GetPrefixRangeEnd(from)
	for {
		page, err := s.scanPage(ctx, etcd, from, end, revision)
		if err != nil {
			return 0, fmt.Errorf("etcd: list: %w", s.client.explain(err))
		}
		revision = page.Header.Revision
		if page.More && len(page.Kvs) > 0 {
			from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		}
		for _, kv := range page.Kvs {
			each(kv)
		}
		if !page.More {
			return revision, nil
		}
	}
}

func (s *Store) scanPage(
	ctx context.Context, etcd *clientv3.Client, from, end string, revision int64,
) (*clientv3.GetResponse, error) {
	ctx, cancel := s.client.request(ctx)
	defer cancel()
	page, err := etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(s.page), clientv3.WithRev(revision))
	if err == nil && revision != 0 {
		page.Header.Revision = revision // the header has the latest revision of the store, which may be later
	}
	return page, err
}
