// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// What VXLAN adds to a packet: outer IP header, UDP header, VXLAN header and inner Ethernet header,
// in bytes.
const (
	vxlanOverhead4 = 20 + 8 + 8 + 14
	vxlanOverhead6 = 40 + 8 + 8 + 14
)

const (
	// defaultMTU is that of an underlying interface of which nothing is known, as it is not there.
	defaultMTU = 1500
	maxVNI     = 1<<24 - 1
)

// VXLAN is a device that encapsulates in VXLAN. Where packets go is for its forwarding database to
// say. The name is its identity. It is a plain value.
type VXLAN struct {
	// Name of the device.
	Name string
	// VNI is the network identifier: 1 to 16777215.
	VNI uint32
	// Port is the UDP port that packets go to, on all nodes.
	Port uint16
	// Local is the address of this node that packets come from. Its family is that of the
	// underlying network.
	Local netip.Addr
	// Parent is the name of the interface that packets leave by; empty leaves that to routing.
	Parent string
	// MTU in bytes. 0 means that of Parent, or else of the interface which has Local (1,500 if that
	// is the loopback), less what VXLAN adds: 50 bytes over IPv4, 70 over IPv6.
	MTU uint32
	// MAC address of the device.
	MAC MAC
	// Addresses of the device with the lengths of their subnets. All others, link-local ones apart,
	// are taken from it.
	Addresses []netip.Prefix
}

// Equal reports whether the two are the same.
func (v *VXLAN) Equal(o *VXLAN) bool {
	return v.Name == o.Name && v.VNI == o.VNI && v.Port == o.Port && v.Local == o.Local && v.Parent == o.Parent &&
		v.MTU == o.MTU && v.MAC == o.MAC && slices.Equal(v.Addresses, o.Addresses)
}

// String returns what ip(8) takes to make the device, without its addresses.
func (v VXLAN) String() string {
	var b strings.Builder
	b.WriteString(v.Name)
	if v.MTU != 0 {
		fmt.Fprintf(&b, " mtu %d", v.MTU)
	}
	fmt.Fprintf(&b, " address %s type vxlan id %d dstport %d local %s", v.MAC, v.VNI, v.Port, v.Local)
	if v.Parent != "" {
		b.WriteString(" dev " + v.Parent)
	}
	return b.String() + " nolearning"
}

func (v *VXLAN) validate() error {
	var errs []error
	if !validInterface(v.Name) {
		errs = append(errs, fmt.Errorf("%q is no name of an interface", v.Name))
	}
	if v.Parent != "" && !validInterface(v.Parent) {
		errs = append(errs, fmt.Errorf("parent %q is no name of an interface", v.Parent))
	}
	if v.VNI == 0 || v.VNI > maxVNI {
		errs = append(errs, fmt.Errorf("VNI %d is not from 1 to %d", v.VNI, maxVNI))
	}
	if v.Port == 0 {
		errs = append(errs, errors.New("no port"))
	}
	if v.Local != v.Local.Unmap() || v.Local.Zone() != "" || !workloadAddr(v.Local) {
		errs = append(errs, fmt.Errorf("local address %s is none of a host", v.Local))
	}
	if v.MAC == (MAC{}) || v.MAC[0]&1 != 0 {
		errs = append(errs, fmt.Errorf("MAC address %s is none of a single device", v.MAC))
	}
	for _, p := range v.Addresses {
		if !p.IsValid() || p.Addr().Is4In6() {
			errs = append(errs, fmt.Errorf("address %s is none", p))
		}
	}
	return errors.Join(errs...)
}

// deviceStep is one change to a device.
type deviceStep struct {
	text string // the command of ip(8)
	// do makes the change to the device with the index.
	do func(c *rtnl.Conn, index int) error
	// remakes means that the device has another index afterwards.
	remakes bool
	// forgets means that the kernel forgets the device's neighbours.
	forgets bool
}

// deviceAlias is the alias by which the devices of a protocol number are known to be ours.
func deviceAlias(protocol uint8) string { return fmt.Sprintf("wayleave proto %d", protocol) }

// foreignDevice reports whether a device which has the name of one of ours is another's.
func foreignDevice(l rtnl.Link, protocol uint8) bool {
	// No alias: made by hand, or by a program that ended before it could give one.
	return l.Kind != rtnl.KindVXLAN || l.Alias != "" && l.Alias != deviceAlias(protocol)
}

// planVXLAN returns the changes that make the device what it is to be; none if it is. The kernel
// cannot change the VNI, the port, the parent and the family of a device: for these it is made
// anew, and for nothing else.
//
// ErrForeign: something else has the name. ErrNoInterface: there is no parent. Both leave
// everything as it is.
func planVXLAN(want *VXLAN, protocol uint8, ls *links) ([]deviceStep, error) {
	link, err := want.link(protocol, ls)
	if err != nil {
		return nil, err
	}
	have, exists := ls.named(want.Name)
	if exists && foreignDevice(have, protocol) {
		return nil, fmt.Errorf("%w: interface %s", ErrForeign, want.Name)
	}
	var steps []deviceStep
	if exists && !alterable(have.VXLAN, link.VXLAN) {
		steps = append(steps, deleteDevice(want.Name))
		exists = false
	}
	if !exists {
		steps = append(steps, addDevice(want, link))
		have = link
		have.Alias = ""
	}
	steps = append(steps, alterDevice(have, link)...)
	var held []netip.Prefix
	if exists {
		held = ls.byName[want.Name].addresses
	}
	steps = append(steps, setAddresses(want, held)...)
	if !have.Up {
		steps = append(steps, deviceStep{
			text: "ip link set dev " + want.Name + " up",
			do:   func(c *rtnl.Conn, index int) error { return c.SetUp(index) },
		})
	}
	return steps, nil
}

// link returns the device as the kernel is to list it, but for its index and state.
func (v *VXLAN) link(protocol uint8, ls *links) (rtnl.Link, error) {
	l := rtnl.Link{
		Name: v.Name, MTU: v.MTU, MAC: rtnl.MAC(v.MAC), Kind: rtnl.KindVXLAN, Alias: deviceAlias(protocol),
		VXLAN: rtnl.VXLAN{VNI: v.VNI, Port: v.Port, Local: v.Local},
	}
	under, known := ls.holding(v.Local)
	if v.Parent != "" {
		if under, known = ls.named(v.Parent); !known {
			return rtnl.Link{}, fmt.Errorf("%w: %s", ErrNoInterface, v.Parent)
		}
		l.VXLAN.Parent = under.Index
	}
	if l.MTU == 0 {
		l.MTU = v.fittingMTU(under, known, ls)
	}
	return l, nil
}

// fittingMTU returns the MTU with which packets fit through the interface below. While that is not
// there, or not known as the loopback holds the address, the device keeps the one that it has.
func (v *VXLAN) fittingMTU(under rtnl.Link, known bool, ls *links) uint32 {
	overhead := uint32(vxlanOverhead4)
	if v.Local.Is6() {
		overhead = vxlanOverhead6
	}
	if known && under.MTU > overhead && under.MTU <= maxMTU { // more has the loopback, by which no packet leaves
		return under.MTU - overhead
	}
	if have, exists := ls.named(v.Name); exists && have.Kind == rtnl.KindVXLAN {
		return have.MTU
	}
	return defaultMTU - overhead
}

// alterable reports whether the kernel can turn the one device into the other.
func alterable(have, want rtnl.VXLAN) bool {
	return have.VNI == want.VNI && have.Port == want.Port && have.Parent == want.Parent && !have.Other &&
		have.Local.IsValid() && have.Local.Is4() == want.Local.Is4()
}

func deleteDevice(name string) deviceStep {
	return deviceStep{
		text:    "ip link del dev " + name,
		do:      func(c *rtnl.Conn, index int) error { return unless(rtnl.ErrNotFound, c.DeleteLink(index)) },
		remakes: true,
	}
}

func addDevice(want *VXLAN, link rtnl.Link) deviceStep {
	said := *want
	said.MTU = link.MTU
	return deviceStep{
		text:    "ip link add " + said.String(),
		remakes: true,
		do: func(c *rtnl.Conn, _ int) error {
			err := c.AddVXLAN(link)
			if errors.Is(err, rtnl.ErrExist) { // the name was free: it is the VNI and port
				return fmt.Errorf("%w: a VXLAN device with VNI %d and port %d, or by the name of %s: %w", ErrForeign,
					want.VNI, want.Port, want.Name, err)
			}
			return err
		},
	}
}

// alterDevice returns the changes to a device that can stay.
func alterDevice(have, want rtnl.Link) (steps []deviceStep) {
	set := func(text string, do func(c *rtnl.Conn, index int) error) {
		steps = append(steps, deviceStep{text: "ip link set dev " + want.Name + " " + text, do: do})
	}
	if have.Alias != want.Alias {
		set("alias '"+want.Alias+"'", func(c *rtnl.Conn, index int) error { return c.SetAlias(index, want.Alias) })
	}
	if have.VXLAN.Local != want.VXLAN.Local || have.VXLAN.Learning {
		set(fmt.Sprintf("type vxlan local %s nolearning", want.VXLAN.Local), func(c *rtnl.Conn, index int) error {
			return c.ChangeVXLAN(index, want.VXLAN.Local, false)
		})
	}
	if have.MAC != want.MAC {
		set("address "+MAC(want.MAC).String(), func(c *rtnl.Conn, index int) error { return c.SetMAC(index, want.MAC) })
		steps[len(steps)-1].forgets = true
	}
	if have.MTU != want.MTU {
		set(fmt.Sprintf("mtu %d", want.MTU), func(c *rtnl.Conn, index int) error { return c.SetMTU(index, want.MTU) })
	}
	return steps
}

// setAddresses returns the changes to the addresses. Those of a link-local subnet are the kernel's
// own. What is new comes first: with its last IPv4 address a device loses all routes.
func setAddresses(want *VXLAN, held []netip.Prefix) (steps []deviceStep) {
	for _, p := range want.Addresses {
		if !slices.Contains(held, p) {
			steps = append(steps, deviceStep{
				text: fmt.Sprintf("ip addr add %s dev %s", p, want.Name),
				do: func(c *rtnl.Conn, index int) error {
					return unless(rtnl.ErrExist, c.AddAddress(rtnl.Address{Index: index, Prefix: p}))
				},
			})
		}
	}
	for _, p := range slices.SortedFunc(slices.Values(held), dataplane.ComparePrefixes) {
		if !slices.Contains(want.Addresses, p) && !p.Addr().IsLinkLocalUnicast() {
			steps = append(steps, deviceStep{
				text: fmt.Sprintf("ip addr del %s dev %s", p, want.Name),
				do: func(c *rtnl.Conn, index int) error {
					return unless(rtnl.ErrNotFound, c.DeleteAddress(rtnl.Address{Index: index, Prefix: p}))
				},
			})
		}
	}
	return steps
}

// unless returns the error unless it is the one that does not matter.
func unless(ignored, err error) error {
	if errors.Is(err, ignored) {
		return nil
	}
	return err
}

// runSteps makes the changes to the device with a name, in order, up to the first that fails.
func runSteps(c *rtnl.Conn, name string, ls *links, steps []deviceStep) error {
	link, known := ls.named(name)
	for _, step := range steps {
		if !known {
			var err error
			link, err = c.Link(name)
			if known = err == nil; !known && !errors.Is(err, rtnl.ErrNotFound) {
				return err
			}
		}
		if err := step.do(c, link.Index); err != nil {
			return fmt.Errorf("%s: %w", step.text, err)
		}
		known = known && !step.remakes
	}
	return nil
}

// strayDevices returns the names of the devices of ours that are not among the wanted, sorted. Of
// those named in own, a device without an alias is ours as well: a process may have been killed
// before it could set one.
func strayDevices(wanted map[string]struct{}, own []string, protocol uint8, ls *links) (names []string) {
	for name, s := range ls.byName {
		ours := s.Alias == deviceAlias(protocol) || s.Alias == "" && slices.Contains(own, name)
		if _, ok := wanted[name]; !ok && s.Kind == rtnl.KindVXLAN && ours {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
