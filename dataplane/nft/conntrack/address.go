// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"github.com/wayleave/wayleave/internal/netlink"
)

// flowsPerFilter is the number of flows from which one filtered dump is faster than a full dump.
// Both walk the kernel's hash table, which usually has 262,144 buckets. For each flow, a filtered
// dump costs a tenth of a full dump. N filtered dumps are faster than one full dump if the table
// has more than N*flowsPerFilter flows.
const flowsPerFilter = 15_000

// filterSupport is the kernel's ability to filter dumps of one family by address.
type filterSupport uint8

const (
	filterUnknown filterSupport = iota
	filterWorks
	// filterBroken: before Linux 5.8, the kernel ignores the filter. At least up to Linux 6.18, a
	// filter by IPv6 address selects the flows without that address.
	filterBroken
)

// EndAddresses ends every flow that has one of the addresses, and returns the number of these
// flows. The address may be source or destination, in either direction, before or after
// translation. EndAddresses may also end flows that begin while it runs. It treats IPv4-mapped IPv6
// addresses as IPv4 addresses.
//
// For each family, EndAddresses takes the faster of two ways:
//
//   - It reads all flows in one walk of the kernel's hash table. The walk takes 2 µs for each flow
//     in the table.
//   - For IPv4, it can let the kernel filter the flows, in four walks for each address. Each walk
//     takes 0.2 µs for each flow in the table.
//
// In addition, each walk takes about 10 ms. If no connection is tracked, there is no walk.
//
// Errors: as for Flows and End. After an error, EndAddresses may be called again.
func (c *Conn) EndAddresses(ctx context.Context, addresses ...netip.Addr) (ended int, err error) {
	return c.endAddresses(ctx, addresses, allFields())
}

// EndHosts ends the flows of the hosts that have the addresses. It ends a flow if one of the
// addresses is the source before source NAT, or the destination after destination NAT. If no
// address is translated, EndHosts ends the same flows as EndAddresses, in half the time.
//
// Errors: as for EndAddresses.
func (c *Conn) EndHosts(ctx context.Context, addresses ...netip.Addr) (ended int, err error) {
	return c.endAddresses(ctx, addresses, hostFields())
}

// EndHostsFunc does what EndHosts does, for the addresses for which wanted returns true. It reads
// all flows, which takes 2 µs for each.
//
// Errors: as for EndAddresses.
func (c *Conn) EndHostsFunc(ctx context.Context, wanted func(netip.Addr) bool) (ended int, err error) {
	return c.eachFamily(func(family uint8, _ int) (int, error) {
		return c.endMatching(ctx, family, hostFields(), wanted)
	})
}

// eachFamily calls end for each family, with the number of flows in the namespace, and returns the
// number of flows that were ended. If there are no flows, it does nothing.
func (c *Conn) eachFamily(end func(family uint8, flows int) (int, error)) (ended int, err error) {
	flows, err := c.Count()
	if err != nil || flows == 0 {
		return 0, err
	}
	for _, family := range []uint8{familyIPv4, familyIPv6} {
		n, err := end(family, flows)
		if ended += n; err != nil {
			return ended, err
		}
	}
	return ended, nil
}

func (c *Conn) endAddresses(ctx context.Context, addresses []netip.Addr, fields []addressField) (ended int, err error) {
	wanted := map[uint8]map[netip.Addr]struct{}{familyIPv4: {}, familyIPv6: {}}
	for _, a := range addresses {
		if a = a.Unmap().WithZone(""); a.IsValid() {
			wanted[familyOf(a)][a] = struct{}{}
		}
	}
	if len(wanted[familyIPv4])+len(wanted[familyIPv6]) == 0 {
		return 0, nil
	}
	return c.eachFamily(func(family uint8, flows int) (int, error) {
		return c.endFamily(ctx, family, wanted[family], fields, flows)
	})
}

// endFamily ends the flows of one family that have a wanted address in one of the fields. The
// parameter flows is the number of flows in the namespace.
func (c *Conn) endFamily(
	ctx context.Context, family uint8, wanted map[netip.Addr]struct{}, fields []addressField, flows int,
) (ended int, err error) {
	if len(wanted) == 0 {
		return 0, nil
	}
	if flows/flowsPerFilter > len(wanted)*len(fields) && *c.support(family) != filterBroken {
		for a := range wanted {
			n, err := c.endFiltered(ctx, a, fields)
			if ended += n; err != nil {
				return ended, err
			}
			if *c.support(family) == filterBroken {
				break
			}
		}
		if err := c.checkFilter(ctx, family); err != nil || *c.support(family) != filterBroken {
			return ended, err
		}
	}
	n, err := c.endMatching(ctx, family, fields, func(a netip.Addr) bool {
		_, ok := wanted[a]
		return ok
	})
	return ended + n, err
}

// endMatching ends the flows of one family with a matching address in one of the fields.
func (c *Conn) endMatching(
	ctx context.Context, family uint8, fields []addressField, matches func(netip.Addr) bool,
) (int, error) {
	var found []Flow
	err := c.dump(ctx, dumpOf(family), func() { found = found[:0] }, func(f *Flow) {
		if slices.ContainsFunc(fields, func(at addressField) bool { return matches(at.of(f)) }) {
			found = append(found, *f)
		}
	})
	if err != nil {
		return 0, err
	}
	return c.End(found)
}

// support returns the cached filter support for a family.
func (c *Conn) support(family uint8) *filterSupport {
	if family == familyIPv4 {
		return &c.support4
	}
	return &c.support6
}

// endFiltered ends the flows that have an address in one of the fields, by a filtered dump for each
// place. If it detects that the filter is broken, it stops.
func (c *Conn) endFiltered(ctx context.Context, a netip.Addr, fields []addressField) (ended int, err error) {
	for _, at := range fields {
		found, err := c.filtered(ctx, a, at)
		if err != nil || *c.support(familyOf(a)) == filterBroken {
			return ended, err
		}
		n, err := c.End(found)
		if ended += n; err != nil {
			return ended, err
		}
	}
	return ended, nil
}

// checkFilter tests whether the kernel's filter by IPv6 address is broken, so that it selects the
// flows without the address. It does nothing if that is already known. checkFilter filters by the
// unspecified address, which no flow has: a broken filter then selects all flows.
func (c *Conn) checkFilter(ctx context.Context, family uint8) error {
	if family == familyIPv4 || *c.support(family) != filterUnknown {
		return nil
	}
	_, err := c.filtered(ctx, netip.IPv6Unspecified(), addressField{})
	return err
}

// filtered returns the flows that have the address in the field. If the filter is broken, it
// records that and returns no flows.
func (c *Conn) filtered(ctx context.Context, a netip.Addr, at addressField) (found []Flow, err error) {
	support := c.support(familyOf(a))
	err = c.dump(ctx, filterRequest(a, at), func() { found = found[:0] }, func(f *Flow) {
		switch {
		case at.of(f) != a:
			*support = filterBroken
		case *support == filterUnknown:
			*support = filterWorks
		}
		if *support == filterWorks {
			found = append(found, *f)
		}
	})
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EINVAL) {
		*support, err = filterBroken, nil
	}
	if *support == filterBroken {
		return nil, err
	}
	return found, err
}

// dumpRequest appends the request for a dump to a connection.
type dumpRequest func(link *netlink.Conn)

// dumpOf requests all flows of a family.
func dumpOf(family uint8) dumpRequest {
	return func(link *netlink.Conn) { link.Request(messageGet, family, 0, 0, 0) }
}

// addressField identifies one of the four addresses of a flow.
type addressField struct{ reply, destination bool }

// hostFields returns the fields of the two hosts' own addresses: the sources of both directions.
func hostFields() []addressField { return []addressField{{false, false}, {true, false}} }

// allFields also returns the destinations of both directions. If an address is translated, they
// differ from the sources.
func allFields() []addressField {
	return append(hostFields(), addressField{false, true}, addressField{true, true})
}

// of returns the flow's address in the field.
func (at addressField) of(f *Flow) netip.Addr {
	t := &f.Original
	if at.reply {
		t = &f.Reply
	}
	if at.destination {
		return t.Destination.Addr()
	}
	return t.Source.Addr()
}

// filterRequest requests the flows that have the address in the field.
func filterRequest(a netip.Addr, at addressField) dumpRequest {
	tuple, flags, value := uint16(attrTupleOriginal), uint16(attrFilterOriginal), uint32(filterSource)
	if at.reply {
		tuple, flags = attrTupleReply, attrFilterReply
	}
	attr := uint16(attrIPv4Source)
	if !a.Is4() {
		attr = attrIPv6Source
	}
	if at.destination {
		attr++ // attrIPv4Destination, attrIPv6Destination
		value = filterDestination
	}
	return func(link *netlink.Conn) {
		b := link.Request(messageGet, familyOf(a), 0, 0, 0)
		nest := b.Begin(tuple)
		ip := b.Begin(attrTupleIP)
		b.Addr(attr, a)
		b.End(ip)
		b.End(nest)
		filter := b.Begin(attrFilter)
		b.Native32(flags, value)
		b.End(filter)
	}
}
