// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// pageBytes is the approximate maximum size of a page.
	pageBytes = 4 << 20
	// firstPage is the number of objects in the first page. Their size determines the number in the
	// next page.
	firstPage = 100
)

// list reads all objects at one revision, and merges those that differ from the cache.
func (f *feed) list(ctx context.Context) error {
	f.cache.startList()
	f.read = keysRead{}
	f.source.updateStats(func(s *SourceStats) { s.Lists++ })
	etcd, err := f.client.conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := pager{client: f.client, etcd: etcd, from: f.client.key(mark), most: int64(f.config.PageSize), limit: firstPage}
	p.limit = min(p.limit, p.most)
	f.cache.waitRoom(ctx.Done())
	p.fetch(ctx)
	for history := (*History)(nil); ; {
		page, err := p.wait()
		if err != nil {
			return fmt.Errorf("etcd: list: %w", f.client.explain(err))
		}
		kvs := page.Kvs
		switch {
		case history == nil:
			if err := f.checkMark(kvs); err != nil {
				return err
			}
			history = newHistory(page.Header, kvs[0])
			kvs = kvs[1:]
		case history.contradicts(p.revision, page.Header): // parts of the list may be from another history
			return errRestarted
		}
		f.cache.waitRoom(ctx.Done())
		if page.More {
			p.fetch(ctx) // while this page is processed
		}
		changes := f.changesOfPage(kvs)
		if !page.More {
			f.cache.endList(changes, p.revision, history)
			f.read = keysRead{known: f.read.last, last: f.read.last}
			return nil
		}
		f.cache.merge(changes)
	}
}

// pager reads a list in pages, all at the revision of the first.
type pager struct {
	client      *Client
	etcd        *clientv3.Client
	from        string
	limit, most int64
	revision    int64
	answer      chan pageOrError
}

type pageOrError struct {
	page *clientv3.GetResponse
	err  error
}

// fetch begins to read the next page.
func (p *pager) fetch(ctx context.Context) {
	answer := make(chan pageOrError, 1)
	p.answer = answer
	from, limit, revision := p.from, p.limit, p.revision
	go func() {
		ctx, cancel := p.client.request(ctx)
		defer cancel()
		end := clientv3.GetPrefixRangeEnd(p.client.key(partState))
		page, err := p.etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(limit),
			clientv3.WithRev(revision))
		answer <- pageOrError{page, err}
	}()
}

// wait waits for the page, and sets the position and size of the next one.
func (p *pager) wait() (*clientv3.GetResponse, error) {
	a := <-p.answer
	if a.err != nil {
		return nil, a.err
	}
	if p.revision == 0 {
		p.revision = a.page.Header.Revision
	}
	size := 0
	for _, kv := range a.page.Kvs {
		size += len(kv.Key) + len(kv.Value)
	}
	p.limit = nextLimit(p.limit, size, p.most)
	if n := len(a.page.Kvs); n > 0 {
		p.from = string(a.page.Kvs[n-1].Key) + "\x00"
	}
	return a.page, nil
}

// nextLimit returns the number of objects for a page of at most pageBytes. Larger pages are better,
// because the server counts all remaining objects for each page.
func nextLimit(limit int64, size int, most int64) int64 {
	switch {
	case size > pageBytes:
		return max(1, limit/2)
	case size < pageBytes/4:
		return min(limit*4, most)
	}
	return limit
}

// changesOfPage returns the changes of one page.
func (f *feed) changesOfPage(kvs []*mvccpb.KeyValue) []change {
	changes := make([]change, 0, len(kvs))
	for _, kv := range kvs {
		f.read.record(f.cache, kv, false)
		rel := f.client.rel(kv.Key)
		key, err := parsePath(rel[len(partState):])
		switch {
		case !isObject(rel):
		case err != nil && !errors.Is(err, ErrNewer):
			f.reject(&ValueError{Key: rel, Err: err})
		case !f.cache.known(key, kv.Value):
			changes = append(changes, f.decode(key, rel, kv.Value, err))
		}
	}
	return changes
}

// checkMark checks that the first key of a list is a mark that this version can read.
func (f *feed) checkMark(kvs []*mvccpb.KeyValue) error {
	if len(kvs) == 0 || string(kvs[0].Key) != f.client.key(mark) {
		return fmt.Errorf("etcd: list: %w", ErrNotInitialised)
	}
	return checkMark(kvs[0].Value)
}
