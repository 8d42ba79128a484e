// SPDX-License-Identifier: Apache-2.0

package late

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

// Limits of the elements in a transaction. They make about 10 MB, or 100 kB if the send buffer is
// too small for that.
const (
	maxElements            = 1 << 16
	maxElementsSmallBuffer = 500
)

// Table drops late packets of ended connections. Its methods may be called from any goroutine.
type Table struct {
	table *ruleset.Table
	sets  map[string]*ruleset.Set

	mu    sync.Mutex // guards the fields below
	conn  *nfnl.Conn
	batch *nfnl.Batch
	enc   *encode.Encoder
	// expiry is the time at which Expire next checks whether the table is empty. Zero means that no
	// table is known.
	expiry time.Time
	// disabled is set from Disable until Enable.
	disabled bool
}

// New returns a Table. If the kernel already has the nftables table, from an earlier process, the
// Table uses it. New writes nothing to the kernel.
//
// Errors: those of the system calls.
func New(cfg Config) (*Table, error) {
	conn, err := nfnl.Dial(nfnl.Config{NetNS: cfg.NetNS})
	if err != nil {
		return nil, err
	}
	t := &Table{
		table: Rules(cfg.PolicyTable), sets: map[string]*ruleset.Set{}, conn: conn, batch: nfnl.NewBatch(),
	}
	for _, s := range t.table.Sets {
		t.sets[s.Name] = s
	}
	t.enc = encode.New(t.batch, t.table.Family, t.table.Name, func(name string) *ruleset.Set { return t.sets[name] })
	exists, err := t.exists()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if exists {
		t.expiry = time.Now().Add(MinPeriod)
	}
	return t, nil
}

// Close closes the socket. The table stays in the kernel. Errors: the error of the system call.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conn.Close()
}

// Name returns the name of the table, which is of family inet.
func (t *Table) Name() string { return t.table.Name }

// Exists reports whether the kernel has the table. Errors: those of the system calls.
func (t *Table) Exists() (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exists()
}

func (t *Table) exists() (bool, error) {
	head, err := t.reader().Head()
	return head.Exists, t.wrap("read", err)
}

func (t *Table) reader() *readback.Reader { return readback.New(t.conn, t.table.Family, t.table.Name) }

// empty reports whether all elements of the sets have timed out.
func (t *Table) empty() (bool, error) {
	for _, s := range t.table.Sets {
		n := 0
		err := t.reader().Keys(s.Name, func() { n = 0 }, func([]byte) { n++ })
		if n > 0 || err != nil && !errors.Is(err, unix.ENOENT) {
			return false, t.wrap("read elements", err)
		}
	}
	return true, nil
}

// Enable makes Add write again after Disable.
func (t *Table) Enable() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disabled = false
}

// period returns the longest time for which the kernel would have tracked a flow without packets.
// For a flow in a flowtable, this time is not known.
func period(f *conntrack.Flow) time.Duration {
	if f.Status&conntrack.StatusOffload != 0 {
		return MaxPeriod
	}
	return f.Timeout
}

// Add makes the kernel drop late packets of those flows whose late packets could begin another
// flow. It skips all other flows. Call Add before you end the flows. Between Disable and Enable,
// Add does nothing.
//
// Errors: those of the system calls, and the kernel's error if it refuses the nftables table.
func (t *Table) Add(flows []conntrack.Flow) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.disabled {
		return nil
	}
	b := newBatch()
	for i := range flows {
		if !startsFlow(&flows[i]) {
			continue
		}
		for _, tuple := range tuples(&flows[i]) {
			b.add(element(tuple, period(&flows[i])))
		}
		if b.len() >= maxElements {
			if err := t.addBatch(b); err != nil {
				return err
			}
			b = newBatch()
		}
	}
	if b.len() == 0 {
		return nil
	}
	return t.addBatch(b)
}

// split divides the elements into smaller batches.
func (b *batch) split() (all []*batch) {
	for set, elements := range b.bySet {
		for chunk := range slices.Chunk(elements, maxElementsSmallBuffer) {
			part := newBatch()
			part.bySet[set], part.longest = chunk, b.longest
			all = append(all, part)
		}
	}
	return all
}

// batch has elements by the names of their sets, without duplicates.
type batch struct {
	bySet   map[string][]ruleset.Element
	seen    map[string]bool
	longest time.Duration
}

func newBatch() *batch { return &batch{bySet: map[string][]ruleset.Element{}, seen: map[string]bool{}} }

func (b *batch) len() int { return len(b.seen) }

func (b *batch) add(set string, e ruleset.Element) {
	key := set + string(bytes.Join(values(e.Key), nil))
	if b.seen[key] {
		return
	}
	b.seen[key] = true
	b.bySet[set] = append(b.bySet[set], e)
	b.longest = max(b.longest, e.Timeout)
}

func values(key []ruleset.Value) [][]byte {
	out := make([][]byte, len(key))
	for i, v := range key {
		out[i] = v
	}
	return out
}

// addBatch adds elements. If the kernel has no table, or a table without these sets, it also adds
// the table.
func (t *Table) addBatch(b *batch) error {
	known := !t.expiry.IsZero()
	if !known { // another process may have made the table since New
		var err error
		if known, err = t.exists(); err != nil {
			return err
		}
	}
	err := t.commit(b, !known)
	if size := (*netlink.SizeError)(nil); errors.As(err, &size) && b.len() > maxElementsSmallBuffer {
		for _, part := range b.split() {
			if err := t.addBatch(part); err != nil {
				return err
			}
		}
		return nil
	}
	if known && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL)) {
		err = t.commit(b, true)
	}
	if err != nil {
		return t.wrap("add elements", err)
	}
	if expiry := time.Now().Add(b.longest); expiry.After(t.expiry) {
		t.expiry = expiry
	}
	return nil
}

// commit sends a transaction that adds elements, to a new table or to the existing one. To extend
// the timeout of an element, the transaction replaces the element. The deletion of a missing
// element would fail, so the element is added first.
func (t *Table) commit(b *batch, create bool) error {
	t.enc.Begin(0)
	if create {
		t.enc.DeleteTable()
		t.enc.AddTable(0)
		for _, s := range t.table.Sets {
			t.enc.AddSet(s)
		}
		for _, c := range t.table.Chains {
			t.enc.AddChain(c)
		}
		for _, c := range t.table.Chains {
			for i := range c.Rules {
				t.enc.AddRule(c.Name, i, &c.Rules[i], encode.Position{Flags: unix.NLM_F_CREATE | unix.NLM_F_APPEND})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.bySet)) {
		t.enc.AddElements(t.sets[name], b.bySet[name])
		if !create {
			t.enc.DeleteElements(t.sets[name], b.bySet[name])
			t.enc.AddElements(t.sets[name], b.bySet[name])
		}
	}
	if err := t.enc.Err(); err != nil {
		return err
	}
	return t.conn.Commit(t.batch, nil)
}

// Expire deletes the table if all elements have timed out. It returns the time until the next call
// is due, or zero if there is no table.
//
// Errors: those of the system calls. The next call tries again.
func (t *Table) Expire() (wait time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expiry.IsZero() {
		return 0, nil
	}
	if wait = time.Until(t.expiry); wait > 0 {
		return wait, nil
	}
	empty, err := t.empty() // another process may have added elements
	if err == nil && empty {
		err = t.delete()
	}
	if t.expiry.IsZero() {
		return 0, err
	}
	t.expiry = time.Now().Add(MinPeriod)
	return MinPeriod, err
}

// Disable deletes the table if it exists. Until Enable is called, Add does nothing. Errors: those
// of the system calls.
func (t *Table) Disable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disabled = true
	exists, err := t.exists()
	if err != nil || !exists {
		return err
	}
	return t.delete()
}

func (t *Table) delete() error {
	t.enc.Begin(0) // creates the table if there is none, so that it can be deleted
	t.enc.DeleteTable()
	err := t.conn.Commit(t.batch, nil)
	if err == nil {
		t.expiry = time.Time{}
	}
	return t.wrap("delete", err)
}

func (t *Table) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("late: table %s: %s: %w", t.table.Name, what, err)
}
