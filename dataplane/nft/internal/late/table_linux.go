// SPDX-License-Identifier: Apache-2.0

package late

import (
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
)

// maxElements bounds a transaction: some 100 kB, which any send buffer holds.
const maxElements = 1000

// Table drops late packets of ended connections. Its methods may be called from any goroutine.
type Table struct {
	table *ruleset.Table
	sets  map[string]*ruleset.Set

	mu    sync.Mutex // guards what follows
	conn  *nfnl.Conn
	batch *nfnl.Batch
	enc   *encode.Encoder
	// expiry is when the last element times out; zero if the kernel has no such table.
	expiry time.Time
}

// New returns a Table. If the kernel has one of an earlier process, it takes that over. It writes nothing.
//
// Errors: those of the system calls.
func New(cfg Config) (*Table, error) {
	conn, err := nfnl.Dial(nfnl.Config{NetNS: cfg.NetNS})
	if err != nil {
		return nil, err
	}
	t := &Table{
		table: Rules(cfg.Table), sets: map[string]*ruleset.Set{}, conn: conn, batch: nfnl.NewBatch(),
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
		t.expiry = time.Now().Add(Period)
	}
	return t, nil
}

// Close closes the socket. The table stays in the kernel. Errors: that of the system call.
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

// empty reports whether the sets have no element that has not timed out.
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

// Keep drops late packets of the flows for Period. Call it before the flows end. It does nothing for those whose late
// packets cannot begin a flow. Kernels before 6.12 do not prolong the Period of a tuple that they have already.
//
// Errors: those of the system calls, and of a kernel that refuses the table.
func (t *Table) Keep(flows []conntrack.Flow) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	bySet, n := map[string][]ruleset.Element{}, 0
	for i := range flows {
		if !kept(&flows[i]) {
			continue
		}
		set, e := element(&flows[i])
		bySet[set] = append(bySet[set], e)
		if n++; n == maxElements {
			if err := t.add(bySet); err != nil {
				return err
			}
			clear(bySet)
			n = 0
		}
	}
	if n == 0 {
		return nil
	}
	return t.add(bySet)
}

// add adds elements, and the table if the kernel has none.
func (t *Table) add(bySet map[string][]ruleset.Element) error {
	known := !t.expiry.IsZero()
	err := t.commit(bySet, !known)
	if err != nil && known { // another process deleted it, or an earlier version made another one
		err = t.commit(bySet, true)
	}
	if err != nil {
		t.expiry = time.Time{}
		return t.wrap("add elements", err)
	}
	t.expiry = time.Now().Add(Period)
	return nil
}

// commit sends a transaction that adds elements, to a new table or to the present one.
func (t *Table) commit(bySet map[string][]ruleset.Element, anew bool) error {
	t.enc.Begin(0)
	if anew {
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
				t.enc.AddRule(c.Name, i, &c.Rules[i], encode.Place{Flags: unix.NLM_F_CREATE | unix.NLM_F_APPEND})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(bySet)) {
		t.enc.AddElements(t.sets[name], bySet[name])
	}
	if err := t.enc.Err(); err != nil {
		return err
	}
	return t.conn.Commit(t.batch, nil)
}

// Expire deletes the table if all elements have timed out. It returns the time until the next call has something to
// do, or zero if there is no table. Errors: those of the system calls; the next call tries again.
func (t *Table) Expire() (wait time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expiry.IsZero() {
		return 0, nil
	}
	if wait = time.Until(t.expiry); wait > 0 {
		return wait, nil
	}
	empty, err := t.empty() // another process may have added some
	if err == nil && empty {
		err = t.delete()
	}
	if t.expiry.IsZero() {
		return 0, err
	}
	t.expiry = time.Now().Add(Period)
	return Period, err
}

// Delete deletes the table, if there is one. Errors: those of the system calls.
func (t *Table) Delete() error {
	t.mu.Lock()
	defer t.mu.Unlock()
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
