// SPDX-License-Identifier: Apache-2.0

package readback

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Absent is the RebuildReason of a Difference if the kernel does not have the table.
const Absent = "there is no such table"

// Difference has the differences between the kernel's table and the desired one.
type Difference struct {
	// RebuildReason is set if the table must be replaced or created. The usual reason is that an
	// object with one of our names is of another kind.
	RebuildReason string
	// Inverse is the delta from the desired table to the kernel's. Repair is the delta from the
	// kernel's table to the desired one. Foreign objects are in neither of them.
	Inverse, Repair ruleset.Delta
	// Dormant is set if the kernel's table is switched off. The field Flags has all other flags of
	// this table.
	Dormant bool
	Flags   uint32
	// Hooks has the hooks of the base chains in the kernel's table, by chain. It leaves out hooks
	// of an unknown kind.
	Hooks map[string]*ruleset.Hook
	// Foreign has the objects that are not desired.
	Foreign Foreign
}

// Foreign has the objects of the kernel's table that are not desired.
type Foreign struct {
	Chains []string
	// Bases are the base chains among Chains.
	Bases []string
	// Lookups has the sets that the rules of each foreign chain look up.
	Lookups map[string][]string
	Sets    []string
	// Maps is set if at least one of the foreign sets is a map. The verdicts in a map may decide
	// about packets.
	Maps bool
	// Objects has all stateful objects of the table, and Flowtables all its flowtables. All of them
	// are foreign: package ruleset has no stateful objects, and package applier refuses desired
	// flowtables.
	Objects    []Object
	Flowtables []string
}

// Object is a stateful object, such as a named counter or quota.
type Object struct {
	Name string
	Type uint32
}

// None reports whether there is no difference between the tables.
func (d *Difference) None() bool {
	f := &d.Foreign
	return d.RebuildReason == "" && !d.Dormant && len(d.Repair.Chains)+len(d.Repair.Sets)+len(d.Repair.Elements)+
		len(f.Chains)+len(f.Sets)+len(f.Objects)+len(f.Flowtables) == 0
}

// MustReplace reports whether the kernel has a table that cannot be changed to the desired one.
func (d *Difference) MustReplace() bool { return d.RebuildReason != "" && d.RebuildReason != Absent }

// ForeignBases returns a difference with only the foreign base chains. For nil it returns nil.
func (d *Difference) ForeignBases() *Difference {
	if d == nil {
		return nil
	}
	return &Difference{Foreign: Foreign{Chains: d.Foreign.Bases}}
}

// AllHooks returns the hooks of the base chains in the kernel's table.
func (d *Difference) AllHooks() (hooks []*ruleset.Hook) {
	for _, name := range slices.Sorted(maps.Keys(d.Hooks)) {
		hooks = append(hooks, d.Hooks[name])
	}
	return hooks
}

// String returns a list of the differences, for the log. If RebuildReason is set, it returns only
// this reason.
func (d *Difference) String() string {
	if d.RebuildReason != "" {
		return d.RebuildReason
	}
	var words []string
	if d.Dormant {
		words = append(words, "flags of the table")
	}
	for _, c := range d.Repair.Chains {
		words = append(words, "chain "+c.Name)
	}
	for _, s := range d.Repair.Sets {
		words = append(words, "set "+s.Name)
	}
	for _, e := range d.Repair.Elements {
		words = append(words, fmt.Sprintf(
			"elements of set %s (%d missing, %d too many)", e.Set, len(e.Add), len(e.Delete),
		))
	}
	for _, name := range slices.Concat(d.Foreign.Chains, d.Foreign.Sets, d.Foreign.Flowtables) {
		words = append(words, "foreign "+name)
	}
	for _, o := range d.Foreign.Objects {
		words = append(words, "foreign "+o.Name)
	}
	return strings.Join(words, ", ")
}
