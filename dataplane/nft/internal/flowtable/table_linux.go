// SPDX-License-Identifier: Apache-2.0

package flowtable

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/kernel"
)

// Table is the table with the flowtable. It is not safe for concurrent use.
type Table struct {
	table   *nftables.Table
	uplinks []string
	conn    *nftables.Conn
}

// New returns a Table, and writes nothing. Errors: that of opening the socket.
func New(cfg Config) (*Table, error) {
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithNetNSFd(cfg.NetNS))
	if err != nil {
		return nil, fmt.Errorf("flowtable: open: %w", err)
	}
	t := &Table{
		table: &nftables.Table{Name: cfg.PolicyTable + "-flowtable", Family: nftables.TableFamilyINet},
		conn:  conn, uplinks: slices.Compact(slices.Sorted(slices.Values(cfg.Uplinks))),
	}
	return t, nil
}

// Close closes the socket. The table stays in the kernel.
func (t *Table) Close() error { return t.conn.CloseLasting() }

// Name returns the name of the table, which is of family inet.
func (t *Table) Name() string { return t.table.Name }

// Withdraw deletes the table: from then on, all packets meet the chains. It is no error if there is none.
func (t *Table) Withdraw() error {
	t.conn.DelTable(t.table)
	if err := t.conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return t.wrap("delete", err)
	}
	return nil
}

// Exists reports whether the kernel has the table, also that of an earlier process.
func (t *Table) Exists() (bool, error) {
	_, err := t.conn.ListTableOfFamily(t.table.Name, t.table.Family)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, t.wrap("read", err)
}

// Offer makes the table after Withdraw: it offers the fast path to the connections of these addresses, with one
// another and with the uplinks. exists tells which interfaces there are: the kernel refuses others. Without an
// address there is no table.
func (t *Table) Offer(own []Address, exists func(name string) (bool, error)) error {
	if len(own) == 0 {
		return nil
	}
	// Until then, a connection that leaves the fast path is forgotten after 30 s (UDP) or 120 s (TCP) without a packet.
	if kernel.OlderThan(5, 17) {
		return t.wrap("add", errors.New("Linux before 5.17 forgets idle connections"))
	}
	devices, err := t.devices(own, exists)
	if err != nil {
		return err
	}
	t.conn.AddTable(t.table)
	for chunk := range slices.Chunk(devices, maxDevices) {
		t.conn.AddFlowtable(&nftables.Flowtable{Table: t.table, Name: flowtableName, Devices: chunk})
	}
	if err := t.addRules(own); err != nil {
		return t.wrap("add", err)
	}
	return t.wrap("add", t.conn.Flush())
}

// devices returns the interfaces that there are, each once.
func (t *Table) devices(own []Address, exists func(name string) (bool, error)) (devices []string, err error) {
	names := slices.Clone(t.uplinks)
	for _, a := range own {
		names = append(names, a.Interface)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		found, err := exists(name)
		if err != nil {
			return nil, err
		}
		if found {
			devices = append(devices, name)
		}
	}
	return devices, nil
}

func (t *Table) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("flowtable: %s table inet %s: %w", op, t.table.Name, err)
}
