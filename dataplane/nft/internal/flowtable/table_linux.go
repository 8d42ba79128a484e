// SPDX-License-Identifier: Apache-2.0

package flowtable

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/kernel"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/nsthread"
)

// Table is the table with the flowtable. It is not safe for concurrent use.
type Table struct {
	name    string
	uplinks []string
	dial    func() (*nfnl.Conn, error)
	release func() error // releases the namespace that dial uses
	conn    *nfnl.Conn   // nil if dial failed
	// owned is set while conn may own the table in the kernel.
	owned bool
	batch *nfnl.Batch
	enc   *encode.Encoder
	sets  map[string]*ruleset.Set
}

// New returns a Table. It writes nothing.
//
// New returns an error if it cannot open the socket.
func New(cfg Config) (*Table, error) {
	netns, release, err := nsthread.Keep(cfg.NetNS)
	if err != nil {
		return nil, err
	}
	t := &Table{
		name: cfg.PolicyTable + "-flowtable", uplinks: slices.Compact(slices.Sorted(slices.Values(cfg.Uplinks))),
		dial:    func() (*nfnl.Conn, error) { return nfnl.Dial(nfnl.Config{NetNS: netns}) },
		release: release, batch: nfnl.NewBatch(), sets: map[string]*ruleset.Set{},
	}
	if err := t.open(); err != nil {
		return nil, errors.Join(err, release())
	}
	t.enc = encode.New(t.batch, ruleset.FamilyINet, t.name, func(name string) *ruleset.Set { return t.sets[name] })
	return t, nil
}

// open opens the socket if it is closed.
func (t *Table) open() (err error) {
	if t.conn == nil {
		t.conn, err = t.dial()
	}
	return err
}

// closeConn closes the socket. The kernel then deletes the table.
func (t *Table) closeConn() error {
	if t.conn == nil {
		return nil
	}
	conn := t.conn
	t.conn = nil
	return conn.Close()
}

// Close closes the socket. The kernel then deletes the table. After Close, Exists and Delete return
// os.ErrClosed, and Install returns an error.
func (t *Table) Close() error {
	t.dial = func() (*nfnl.Conn, error) { return nil, os.ErrClosed }
	return errors.Join(t.closeConn(), t.release())
}

// Name returns the name of the table, which is of family inet.
func (t *Table) Name() string { return t.name }

// Exists reports whether the kernel has a table with the name that Name returns.
func (t *Table) Exists() (bool, error) {
	if err := t.open(); err != nil {
		return false, t.wrap("read", err)
	}
	head, err := readback.New(t.conn, ruleset.FamilyINet, t.name).Head()
	return head.Exists, t.wrap("read", err)
}

// Delete deletes the table. From then on, all packets traverse the chains. If there is no table, it
// does nothing. If the kernel refuses the deletion, Delete closes the socket that owns the table,
// which also deletes the table, and opens another one. Delete returns an error only if the table
// still exists, because another process owns it, or if it is not known whether it exists.
func (t *Table) Delete() error {
	if err := t.open(); err != nil {
		return t.wrap("delete", err)
	}
	t.enc.Begin(0) // creates the table if it is missing, so that the deletion succeeds
	t.enc.DeleteTable()
	err, owned := t.conn.Commit(t.batch, nil), t.owned
	t.owned = false
	if err == nil {
		return nil
	}
	_ = t.closeConn() // the socket is gone even after an error
	exists, readErr := t.Exists()
	if exists || readErr != nil && !owned { // the kernel has deleted an own table, also if no socket can be opened
		return errors.Join(t.wrap("delete", err), readErr)
	}
	return nil
}

// Install installs the table. The parameter own has the addresses of workloads, each with the
// workload's interface. The parameter devices has the interfaces of workloads and uplinks; each of
// them must exist, because the kernel refuses others. After Install, connections between two
// addresses in own, and between one of them and an uplink, use the fast path. If one of the two
// lists is empty, Install does nothing.
//
// The Table's netlink socket owns the table in the kernel. So the kernel deletes the table when the
// process ends for any reason: no flowtable stays without a process that updates it.
func (t *Table) Install(own []Address, devices []string) error {
	if len(own) == 0 || len(devices) == 0 {
		return nil
	}
	if !Supported() {
		return t.wrap("add", noFlowtables(nil))
	}
	if err := t.open(); err != nil {
		return t.wrap("add", err)
	}
	table := rules(t.name, t.uplinks, own, devices)
	clear(t.sets)
	t.enc.Begin(0)
	t.enc.DeleteTable() // if there is one without an owner
	t.enc.AddTable(encode.TableOwner)
	for _, f := range table.Flowtables {
		t.enc.AddFlowtable(f)
	}
	for _, s := range table.Sets {
		t.sets[s.Name] = s
		t.enc.AddSet(s)
		t.enc.AddElements(s, s.Elements)
	}
	for _, c := range table.Chains {
		t.enc.AddChain(c)
		for i := range c.Rules {
			t.enc.AddRule(c.Name, i, &c.Rules[i], encode.Position{Flags: unix.NLM_F_CREATE | unix.NLM_F_APPEND})
		}
	}
	if err := t.enc.Err(); err != nil {
		return t.wrap("add", err)
	}
	err := t.conn.Commit(t.batch, nil)
	// EPERM means that another process owns the table.
	t.owned = !errors.Is(err, unix.EPERM)
	if errors.Is(err, unix.ENOENT) { // flowtables are missing, or a device has been removed meanwhile
		err = noFlowtables(err)
	}
	return t.wrap("add", err)
}

// Supported reports whether the version of the kernel can end a connection that is on the fast
// path. This is necessary for policy. The kernel can do this since Linux 6.4, and in 6.1 since
// 6.1.37 ("netfilter: ctnetlink: Support offloaded conntrack entry deletion").
func Supported() bool {
	return !kernel.OlderThan(6, 4, 0) || !kernel.OlderThan(6, 1, 37) && kernel.OlderThan(6, 2, 0)
}

func noFlowtables(err error) error {
	return &dataplane.FeatureError{
		Feature: "flowtables from which connections can end", Since: "6.4 or 6.1.37", Module: "nft_flow_offload",
		Err: err,
	}
}

func (t *Table) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("flowtable: %s table inet %s: %w", op, t.name, err)
}
