// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Compare reads a table from the kernel, and compares all its rules, sets and elements with the
// given table of the same family and name. All that it reads is of one generation of the ruleset.
// It writes nothing, and does not become the owner of the table. So it can be used beside an
// Applier, and for a table of another process. The parameter netNS is a file descriptor of the
// network namespace. Zero means the namespace of the calling thread. Compare takes time in
// proportion to the table.
//
// Errors:
//
//   - a table that is not valid
//   - a table with flowtables, because an Applier cannot write flowtables
//   - the context's error
//   - the errors of the system calls, and unix.EINTR if the ruleset changes too often to be read
func Compare(ctx context.Context, netNS int, table *ruleset.Table) (c Comparison, err error) {
	want, err := ruleset.StateOf(table)
	if err != nil {
		return c, fmt.Errorf("applier: compare table %s: %w", table.Name, err)
	}
	if err := checkNoFlowtables(table); err != nil {
		return c, fmt.Errorf("applier: compare: %w", err)
	}
	d, err := readDifference(ctx, netNS, table.Name, want)
	if err != nil {
		return c, err
	}
	c.Chains, c.Sets = len(table.Chains), len(table.Sets)
	for _, s := range table.Sets {
		c.Elements += len(s.Elements)
	}
	if d.None() {
		return c, nil
	}
	c.Reason = d.String()
	c.Changes, err = changes(table, want, d)
	return c, err
}

// Elements reads the elements of sets from the kernel. The given table has the family and name of
// the kernel's table, and the names and types of the sets. It needs no chains or elements. The
// result maps the name of each set in the kernel to its elements, with only the fields Key, Last
// and Ends. The result is empty if the kernel has no such table. It is also empty if the kernel's
// table has an object that conflicts with the given table, such as a set of another type. Elements
// writes nothing, and takes time in proportion to the table.
//
// Errors: a table that is not valid; the context's error; the errors of the system calls, and
// unix.EINTR as for Compare.
func Elements(ctx context.Context, netNS int, table *ruleset.Table) (map[string][]ruleset.Element, error) {
	want, err := ruleset.StateOf(table)
	if err != nil {
		return nil, fmt.Errorf("applier: read elements of table %s: %w", table.Name, err)
	}
	d, err := readDifference(ctx, netNS, table.Name, want)
	if err != nil || d.RebuildReason != "" {
		return nil, err
	}
	actual, err := kernelState(want, d)
	if errors.Is(err, errForm) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string][]ruleset.Element{}
	for _, s := range table.Sets {
		if actual.Set(s.Name) != nil {
			for _, e := range actual.View(s.Name).Elements() {
				all[s.Name] = append(all[s.Name], ruleset.Element{Key: e.Key, Last: e.Last, Ends: e.Ends})
			}
		}
	}
	return all, nil
}

// readDifference compares the kernel's table with the wanted one, on a connection of its own.
func readDifference(
	ctx context.Context, netNS int, name string, want *ruleset.State,
) (d *readback.Difference, err error) {
	conn, err := nfnl.Dial(nfnl.Config{NetNS: netNS})
	if err != nil {
		return nil, fmt.Errorf("applier: read table %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if d, err = readGeneration(ctx, conn, name, want); err != nil {
		return nil, fmt.Errorf("applier: read table %s: %w", name, err)
	}
	return d, nil
}

// readGeneration compares the kernel's table with the wanted one, in one generation of the ruleset.
func readGeneration(
	ctx context.Context, conn *nfnl.Conn, name string, want *ruleset.State,
) (*readback.Difference, error) {
	reader := readback.New(conn, want.Family(), name)
	for range maxReadings {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		before, err := conn.Generation()
		if err != nil {
			return nil, err
		}
		d, _, err := reader.Compare(want)
		if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
		after, failed := conn.Generation()
		if failed != nil {
			return nil, failed
		}
		if err == nil && before == after {
			return d, nil
		}
	}
	return nil, unix.EINTR
}

// changes returns the changes that make the kernel's table equal to the desired one, in the syntax
// of nft.
func changes(table *ruleset.Table, want *ruleset.State, d *readback.Difference) (string, error) {
	if d.RebuildReason != "" {
		return table.String(), nil
	}
	actual, err := kernelState(want, d)
	if errors.Is(err, errForm) { // a repair would replace the table, too
		return table.String(), nil
	}
	if err != nil {
		return "", err
	}
	repair, err := actual.Prepare(&d.Repair)
	if err != nil {
		return "", fmt.Errorf("applier: compare tables: %w", err)
	}
	var text strings.Builder
	at := fmt.Sprintf("%s %s", table.Family, table.Name)
	if d.Dormant {
		fmt.Fprintf(&text, "add table %s { flags; }\n", at)
	}
	text.WriteString(ruleset.Script(repair.Ops))
	for _, list := range []struct {
		kind  string
		names []string
	}{{"chain", d.Foreign.Chains}, {"set", d.Foreign.Sets}, {"flowtable", d.Foreign.Flowtables}} {
		for _, name := range slices.Sorted(slices.Values(list.names)) {
			fmt.Fprintf(&text, "delete %s %s %s\n", list.kind, at, name)
		}
	}
	for _, o := range d.Foreign.Objects {
		fmt.Fprintf(&text, "delete object %s %s\n", at, o.Name)
	}
	return text.String(), nil
}
