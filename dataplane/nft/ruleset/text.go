// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// String returns the table in nft syntax, as one "table inet name { ... }" block that nft 1.0.6
// loads. If the kernel already has a table with the same name, nft adds the objects to this table.
// To replace the table instead, use ReplaceScript.
func (t *Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table %s {\n", t.ident())
	sep := ""
	for _, s := range t.Sets {
		b.WriteString(sep)
		b.WriteString(s.text())
		sep = "\n"
	}
	for _, f := range t.Flowtables {
		b.WriteString(sep)
		b.WriteString(f.text())
		sep = "\n"
	}
	for _, c := range t.Chains {
		b.WriteString(sep)
		b.WriteString(c.text(t.Family))
		sep = "\n"
	}
	b.WriteString("}\n")
	return b.String()
}

// ReplaceScript returns nft commands that make the table, and replace an existing table of the same
// name.
func (t *Table) ReplaceScript() string {
	return fmt.Sprintf("table %s\ndelete table %s\n%s", t.ident(), t.ident(), t)
}

// ident returns the table's family and name as nft commands have them.
func (t *Table) ident() string { return t.Family.String() + " " + t.Name }

// text returns the set as a block of a table, indented by a tab.
func (s *Set) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\t%s %s {\n", s.keyword(), s.Name)
	for _, line := range s.headText() {
		fmt.Fprintf(&b, "\t\t%s\n", strings.TrimSuffix(line, ";"))
	}
	if len(s.Elements) > 0 {
		fmt.Fprintf(&b, "\t\telements = { %s }\n", elementsText(s.Key, s.Data, s.Elements, ",\n\t\t\t     "))
	}
	b.WriteString("\t}\n")
	return b.String()
}

// headText returns the lines of the set's declaration.
func (s *Set) headText() []string {
	parts := []string{"type " + s.typeText() + ";"}
	if s.Size > 0 {
		parts = append(parts, fmt.Sprintf("size %d;", s.Size))
	}
	var flags []string
	if s.Interval {
		flags = append(flags, "interval")
	}
	if s.Timed() {
		flags = append(flags, "timeout")
	}
	if len(flags) > 0 {
		parts = append(parts, "flags "+strings.Join(flags, ",")+";")
	}
	if s.Counter {
		parts = append(parts, "counter;")
	}
	if s.Timeout > 0 {
		parts = append(parts, "timeout "+durationText(s.Timeout)+";")
	}
	if s.GCInterval > 0 {
		parts = append(parts, "gc-interval "+durationText(s.GCInterval)+";")
	}
	if s.Comment != "" {
		parts = append(parts, "comment "+quote(s.Comment)+";")
	}
	return parts
}

// keyword returns "set" or "map".
func (s *Set) keyword() string {
	if s.Verdicts || len(s.Data) > 0 {
		return "map"
	}
	return "set"
}

// kindText returns the keyword of the set. For a map to values, it also has the types.
func (s *Set) kindText() string {
	if len(s.Data) > 0 {
		return "map of " + s.typeText()
	}
	return s.keyword()
}

// typeText returns the set's type in nft syntax.
func (s *Set) typeText() string {
	text := joinFunc(s.Key, " . ", Type.String)
	switch {
	case s.Verdicts:
		text += " : verdict"
	case len(s.Data) > 0:
		text += " : " + joinFunc(s.Data, " . ", Type.String)
	}
	return text
}

func (c *Chain) text(family Family) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\tchain %s {\n", c.Name)
	if c.Hook != nil {
		fmt.Fprintf(&b, "\t\t%s\n", c.Hook.text(family))
	}
	for _, r := range c.Rules {
		fmt.Fprintf(&b, "\t\t%s\n", r.text(family))
	}
	b.WriteString("\t}\n")
	return b.String()
}

func (h *Hook) text(family Family) string {
	return fmt.Sprintf(
		"type %s hook %s priority %s; policy %s;", h.Type, h.Point, priorityText(family, h.Priority), h.Policy,
	)
}

// priorityText writes a priority as nft lists it: near "filter", relative to it. In family bridge
// it writes the number, because "filter" is -200 there.
func priorityText(family Family, p int) string {
	switch {
	case family == FamilyBridge:
		return strconv.Itoa(p)
	case p == 0:
		return "filter"
	case p > 0 && p <= 10:
		return fmt.Sprintf("filter + %d", p)
	case p < 0 && p >= -10:
		return fmt.Sprintf("filter - %d", -p)
	default:
		return strconv.Itoa(p)
	}
}

// durationText writes a time as nft does.
func durationText(d time.Duration) string {
	var b strings.Builder
	for _, unit := range durationUnits() {
		if n := d / unit.length; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, unit.name)
			d %= unit.length
		}
	}
	return b.String()
}

// durationUnit is a unit of time with nft's name.
type durationUnit struct {
	length time.Duration
	name   string
}

func durationUnits() [5]durationUnit {
	return [...]durationUnit{
		{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"},
	}
}
