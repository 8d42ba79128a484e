// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Flowtable is the kernel's fast path. FlowAdd adds connections to it. When a packet of such a
// connection arrives at one of the flowtable's Devices, the packet skips all chains.
type Flowtable struct {
	Name string
	// Priority is the flowtable's priority in the ingress hook of its devices.
	Priority int
	// Devices are names of interfaces. A device is in at most one flowtable of a table.
	Devices []string
	// Counter means that connection tracking also counts the packets on the fast path, if the
	// sysctl net.netfilter.nf_conntrack_acct is set. Since Linux 5.7.
	Counter bool
}

// FlowAdd adds the packet's connection to a flowtable. The kernel accepts this statement only in
// the hook forward. It must be the last statement of its rule. Evaluation continues with the next
// rule, whether the kernel has added the connection or not.
//
// The kernel does not add a connection in these cases:
//
//   - The packet is ICMP, or has no connection.
//   - The packet is TCP, and its connection is not established or is closing.
//   - The connection has a helper, or is in a flowtable already.
type FlowAdd struct{ Flowtable string }

func (FlowAdd) statement() {}

func (f *Flowtable) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\tflowtable %s {\n\t\thook ingress priority %s\n", f.Name, priorityText(FamilyINet, f.Priority))
	if len(f.Devices) > 0 {
		fmt.Fprintf(&b, "\t\tdevices = { %s }\n", joinFunc(f.Devices, ", ", deviceText))
	}
	if f.Counter {
		b.WriteString("\t\tcounter\n")
	}
	b.WriteString("\t}\n")
	return b.String()
}

// deviceText returns the name of a device. It adds quotation marks only if nft needs them, because
// nft 0.9.8 does not accept them.
func deviceText(name string) string {
	if ValidName(name) {
		return name
	}
	return quote(name)
}

func (f *Flowtable) equal(o *Flowtable) bool {
	if f == o || f == nil || o == nil {
		return f == o
	}
	return f.Name == o.Name && f.Priority == o.Priority && f.Counter == o.Counter && slices.Equal(f.Devices, o.Devices)
}

// normalFlowtables returns copies in the order of Normalize. It keeps nil flowtables, so that
// checkFlowtables reports them.
func normalFlowtables(all []*Flowtable) []*Flowtable {
	var out []*Flowtable
	for _, f := range all {
		if f != nil {
			f = &Flowtable{f.Name, f.Priority, slices.Sorted(slices.Values(f.Devices)), f.Counter}
		}
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b *Flowtable) int {
		if a == nil || b == nil {
			return 0 // An invalid table. checkFlowtables reports the nil.
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return out
}

// findFlowtable returns the flowtable with the name, or nil.
func findFlowtable(all []*Flowtable, name string) *Flowtable {
	for _, f := range all {
		if f != nil && f.Name == name {
			return f
		}
	}
	return nil
}

// checkSameFlowtables reports the differences of normalized flowtables, because no operation can
// change a flowtable.
func checkSameFlowtables(v *validator, old, new []*Flowtable) {
	for _, f := range new {
		if f == nil {
			continue // checkFlowtables reports it.
		}
		switch before := findFlowtable(old, f.Name); {
		case before == nil:
			v.addf("flowtable %s: no operation adds it", f.Name)
		case !before.equal(f):
			v.addf("flowtable %s: no operation changes it", f.Name)
		}
	}
	for _, f := range old {
		if findFlowtable(new, f.Name) == nil {
			v.addf("flowtable %s: no operation deletes it", f.Name)
		}
	}
}

// checkFlowtables reports flowtables that nft or the kernel refuses.
func checkFlowtables(v *validator) {
	var names []string
	in := map[string]*Flowtable{}
	for _, f := range v.flowtables {
		if f == nil {
			v.addf("a flowtable is nil")
			continue
		}
		v.in("flowtable "+f.Name, func() {
			switch {
			case !ValidName(f.Name):
				v.addf("not a name")
			case slices.Contains(names, f.Name):
				v.addf("occurs twice")
			}
			names = append(names, f.Name)
			if v.family == FamilyBridge {
				v.addf("in family %s", v.family)
			}
			if int(int32(f.Priority)) != f.Priority {
				v.addf("priority %d: want 32 bits", f.Priority)
			}
			checkDevices(v, f, in)
		})
	}
}

// checkDevices checks the devices of a flowtable. in maps the devices so far to their flowtables.
func checkDevices(v *validator, f *Flowtable, in map[string]*Flowtable) {
	for _, name := range f.Devices {
		if !ValidIfname(name) || !printable(name) {
			v.addf("%q is not the name of an interface", name)
		}
		switch other := in[name]; other {
		case nil:
			in[name] = f
		case f:
			v.addf("device %s occurs twice", name)
		default:
			v.addf("device %s is in flowtable %s, too", name, other.Name)
		}
	}
}
