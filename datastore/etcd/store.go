// SPDX-License-Identifier: Apache-2.0

package etcd

import (
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

// Revision is a revision of the store: each transaction makes one, and an object is at that of the
// transaction which wrote it last. It is a plain value and safe for concurrent use.
type Revision int64

// What a writer may expect beside a revision.
const (
	// Any means that nothing is expected.
	Any Revision = 0
	// Absent means that there is no such object.
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

// StoreConfig says where a Store keeps its objects.
//
// It is a plain value and is not changed by the Store.
type StoreConfig struct {
	// Client to read and write with. Required.
	Client *Client
	// PageSize is how many objects List reads with one request. Default: 1000.
	PageSize int
	// Recheck is how often WatchSettings reads the settings beside watching them. Default: 1 min.
	Recheck time.Duration
}

// Store reads and writes the objects of a cluster. Every object is validated before it is written,
// and what was written in a newer form is never overwritten.
//
// It is safe for concurrent use, by several programs too.
type Store struct {
	client  *Client
	page    int64
	recheck time.Duration
}

// NewStore returns a store. It does not speak to the servers. It fails if the configuration is
// invalid.
func NewStore(cfg StoreConfig) (*Store, error) {
	if cfg.PageSize == 0 {
		cfg.PageSize = 1000
	}
	if cfg.Recheck == 0 {
		cfg.Recheck = time.Minute
	}
	var errs []error
	if cfg.Client == nil {
		errs = append(errs, errors.New("etcd: StoreConfig.Client: required"))
	}
	if cfg.PageSize < 0 || cfg.Recheck < 0 {
		errs = append(errs, errors.New("etcd: StoreConfig.PageSize and Recheck must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Store{client: cfg.Client, page: int64(cfg.PageSize), recheck: cfg.Recheck}, nil
}

// Object is a resource as the store has it. It is plain data; the resource may be shared by
// readers.
type Object struct {
	// Resource is canonical.
	Resource policy.Resource
	// Revision that it is at.
	Revision Revision
	// Owner is the stream that a Writer wrote it for; empty for one that was put.
	Owner string
}

// Init says that what is in the key space is complete, from now on: until then a Source waits. It
// makes the mark that a Source looks for, with a random id of the History that begins, and does
// nothing where a mark is there. Errors: ErrNewer, or the client's.
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

// Suspend takes back what Init said: every Source stays as it is, whatever is written, until Init
// is called again. So a store can be filled anew without any node seeing it half full. Errors: a
// *ValueError that is ErrNewer for a mark which a newer version made; the client's.
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

// Barrier returns a revision after all earlier writes, which every Source receives, even if the last
// writes changed nothing. RealisedAt returns which nodes have it in force. Barrier writes one small
// key. Errors: a *ValueError that is ErrNewer, or the client's.
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

// checkMark reads the value of the mark.
func checkMark(value []byte) error {
	if _, err := members(value, "history"); err != nil {
		return &ValueError{Key: mark, Err: err}
	}
	return nil
}

// begin returns what a request needs.
func (s *Store) begin(ctx context.Context) (*clientv3.Client, context.Context, context.CancelFunc, error) {
	etcd, err := s.client.conn(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := s.client.request(ctx)
	return etcd, ctx, cancel, nil
}

// Get returns an object. Errors: ErrNotFound; a *ValueError, also ErrNewer; the client's.
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

// Query says which objects to list.
type Query struct {
	// Kind of the objects. Empty: of every kind.
	Kind policy.Kind
	// Namespace of the objects; it needs a Kind. Empty: in every namespace and global.
	Namespace string
}

// List is what a query found, at one revision.
type List struct {
	// Objects sorted by key.
	Objects []Object
	// Problems are values that cannot be used, each a *ValueError.
	Problems []error
	// Revision at which all of it was so.
	Revision Revision
}

// List returns the objects that a query asks for, all of them as they were at one moment, however
// many pages it takes. Errors: the client's, and its rpctypes.ErrCompacted if that moment was
// compacted meanwhile: try again.
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

// scan reads what a prefix holds, page by page at one revision, which it returns.
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
		page.Header.Revision = revision // the header has the store's own, which may be later
	}
	return page, err
}
