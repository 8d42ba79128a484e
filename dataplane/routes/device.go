// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// device is the desired state of an interface that encapsulates packets, such as a VXLAN device.
// The name is the identity of a device. String returns the arguments of ip(8) that create it,
// without its addresses.
type device interface {
	Object
	name() string
	// addresses with the lengths of their subnets.
	addresses() []netip.Prefix
	// encapsulation is the name of the protocol, for errors.
	encapsulation() string
	validate() error
	// fit returns the device with its MTU, and the device as package netlink has it. Errors:
	// ErrNoInterface if an interface that the device needs does not exist.
	fit(ls *links) (device, netlink.Link, error)
	// alter returns the changes that turn the device have into want. Changes to parameters that all
	// interfaces have are not among them. If the kernel cannot make the changes, can is false and
	// the device is recreated.
	alter(c *rtnl.Conn, have, want netlink.Link) (steps []deviceStep, can bool)
}

// unwantedDevice is the name of a device to delete, for errors.
type unwantedDevice string

func (unwantedDevice) kind() string     { return "device" }
func (d unwantedDevice) String() string { return string(d) }

// vrfKind is the kernel's name of the kind of VRFs. The MTU of a VRF does not depend on its lower
// devices.
const vrfKind = "vrf"

// deviceKinds returns the kernel's names of the kinds of devices that this package makes.
func deviceKinds() []string { return []string{vxlanKind, ipipKind, wireguardKind} }

func validateAddresses(addresses []netip.Prefix) error {
	var errs []error
	for _, p := range addresses {
		if !p.IsValid() || p.Addr().Is4In6() {
			errs = append(errs, fmt.Errorf("address %s is invalid or IPv4-mapped", p))
		}
	}
	return errors.Join(errs...)
}

// defaultMTU is assumed for a lower device that does not exist yet.
const defaultMTU = 1500

// sameDevice reports whether two devices have the same parameters and addresses.
func sameDevice(a, b device) bool {
	return a.String() == b.String() && slices.Equal(a.addresses(), b.addresses())
}

// deviceStep is one change to a device.
type deviceStep struct {
	text string // the command of ip(8)
	// do makes the change. Of dev, only the name and the index are set.
	do func(h *netlink.Handle, dev netlink.Link) error
	// remakes means that the device has another index afterwards.
	remakes bool
	// forgets means that the kernel forgets the device's neighbours.
	forgets bool
}

// deviceAlias returns the alias that marks our devices of a protocol number.
func deviceAlias(protocol uint8) string { return fmt.Sprintf("wayleave proto %d", protocol) }

// foreignDevice reports whether a device with the name of one of ours belongs to another process.
func foreignDevice(l rtnl.Link, protocol uint8) bool {
	// No alias: made by hand, or by a program that ended before it could give one.
	return !slices.Contains(deviceKinds(), l.Kind) || l.Alias != "" && l.Alias != deviceAlias(protocol)
}

// planDevice returns the changes that turn the kernel's device into the desired one. They recreate
// the device only if the kernel cannot change it.
//
// Errors: ErrForeign if another interface has the name, ErrNoInterface if the parent does not
// exist.
func planDevice(c *rtnl.Conn, want device, protocol uint8, ls *links) ([]deviceStep, error) {
	want, link, err := want.fit(ls)
	if err != nil {
		return nil, err
	}
	have, exists := ls.named(want.name())
	if exists && foreignDevice(have, protocol) {
		return nil, fmt.Errorf("%w: interface %s", ErrForeign, want.name())
	}
	var held []netip.Prefix
	var steps, altered []deviceStep
	if exists {
		held = ls.ByName[want.name()].Addresses
		var gone netlink.LinkNotFoundError
		present, err := readDevice(c, have.Index)
		if err != nil && !errors.As(err, &gone) {
			return nil, err
		}
		if altered, exists = want.alter(c, present, link); !exists {
			steps = []deviceStep{deleteDevice(want.name())}
		}
	}
	if !exists {
		held = nil
		steps = append(steps, addDevice(want, link))
		have = rtnl.Link{MTU: uint32(link.Attrs().MTU)}
		copy(have.MAC[:], link.Attrs().HardwareAddr)
	}
	steps = append(steps, alterDevice(have, link, deviceAlias(protocol), altered)...)
	steps = append(steps, setAddresses(want, held)...)
	if !have.Up {
		up := deviceStep{text: "ip link set dev " + want.name() + " up", do: (*netlink.Handle).LinkSetUp}
		steps = append(steps, up)
	}
	return steps, nil
}

// readDevice returns a device with its parameters.
func readDevice(c *rtnl.Conn, index int) (netlink.Link, error) {
	h, err := c.Handle()
	if err != nil {
		return nil, err
	}
	return h.LinkByIndex(index)
}

// lowerDevice returns the index of the parent (0 if parent is empty), and the MTU for the device
// called name. The MTU is that of the lower device, less the overhead. The lower device is the
// parent; if there is no parent, or the parent is a VRF, it is the interface with the local
// address. If no interface has the local address, or the loopback has it, the device keeps its MTU.
func (l *links) lowerDevice(name, parent string, local netip.Addr, overhead uint32) (index int, mtu uint32, err error) {
	lower, known := l.linkWithAddress(local)
	if parent != "" {
		parentLink, exists := l.named(parent)
		if !exists {
			return 0, 0, fmt.Errorf("%w: %s", ErrNoInterface, parent)
		}
		if index = parentLink.Index; parentLink.Kind != vrfKind {
			lower, known = parentLink, true
		}
	}
	have, exists := l.named(name)
	switch {
	// The loopback's MTU is larger; no encapsulated packet leaves through it.
	case known && lower.MTU > overhead && lower.MTU <= maxMTU:
		return index, lower.MTU - overhead, nil
	case exists && slices.Contains(deviceKinds(), have.Kind):
		return index, have.MTU, nil
	}
	return index, defaultMTU - overhead, nil
}

func deleteDevice(name string) deviceStep {
	return deviceStep{
		text:    "ip link del dev " + name,
		do:      func(h *netlink.Handle, dev netlink.Link) error { return unless(h.LinkDel(dev), syscall.ENODEV) },
		remakes: true,
	}
}

func addDevice(want device, link netlink.Link) deviceStep {
	return deviceStep{
		text:    "ip link add " + want.String(),
		remakes: true,
		do: func(h *netlink.Handle, _ netlink.Link) error {
			err := h.LinkAdd(link)
			if errors.Is(err, syscall.EOPNOTSUPP) {
				return fmt.Errorf("%s: %w", want.encapsulation(), noKind(link.Type(), err))
			}
			return deviceError(want, err)
		},
	}
}

// noKind returns the error for a kernel that has no devices of a kind. A later pass adds the device
// once the module is loaded.
func noKind(kind string, err error) error {
	since := map[string]string{"vxlan": "3.7", "ipip": "3.8", "wireguard": "5.6"}
	return &dataplane.FeatureError{Feature: "devices of kind " + kind, Since: since[kind], Module: kind, Err: err}
}

// deviceError explains an error of the kernel about the parameters of a device.
func deviceError(want device, err error) error {
	if errors.Is(err, syscall.EEXIST) { // the name was free or is ours: another device has the parameters
		return fmt.Errorf("%w: a device with the name or the parameters of %s: %w", ErrForeign, want, err)
	}
	return err
}

// alterDevice returns the changes to an existing device. special has the changes to parameters that
// only devices of its kind have.
func alterDevice(have rtnl.Link, want netlink.Link, alias string, special []deviceStep) (steps []deviceStep) {
	attrs := want.Attrs()
	set := func(text string, do func(h *netlink.Handle, dev netlink.Link) error) {
		steps = append(steps, deviceStep{text: "ip link set dev " + attrs.Name + " " + text, do: do})
	}
	if have.Alias != alias {
		set("alias '"+alias+"'", func(h *netlink.Handle, dev netlink.Link) error { return h.LinkSetAlias(dev, alias) })
	}
	steps = append(steps, special...)
	if mac := attrs.HardwareAddr; mac != nil && !slices.Equal(have.MAC[:], mac) {
		set("address "+mac.String(), func(h *netlink.Handle, dev netlink.Link) error {
			return h.LinkSetHardwareAddr(dev, mac)
		})
		steps[len(steps)-1].forgets = true
	}
	if int(have.MTU) != attrs.MTU {
		set(fmt.Sprintf("mtu %d", attrs.MTU), func(h *netlink.Handle, dev netlink.Link) error {
			return h.LinkSetMTU(dev, attrs.MTU)
		})
	}
	return steps
}

// setAddresses returns the changes to the addresses of a device. It leaves link-local addresses,
// which the kernel adds itself. Additions come first, because a device that loses its last IPv4
// address loses all its routes.
func setAddresses(want device, held []netip.Prefix) (steps []deviceStep) {
	for _, p := range want.addresses() {
		if !slices.Contains(held, p) {
			steps = append(steps, deviceStep{
				text: fmt.Sprintf("ip addr add %s dev %s", p, want.name()),
				do: func(h *netlink.Handle, dev netlink.Link) error {
					return unless(h.AddrAdd(dev, deviceAddress(p)), syscall.EEXIST)
				},
			})
		}
	}
	for _, p := range slices.SortedFunc(slices.Values(held), dataplane.ComparePrefixes) {
		if !slices.Contains(want.addresses(), p) && !p.Addr().IsLinkLocalUnicast() {
			steps = append(steps, deviceStep{
				text: fmt.Sprintf("ip addr del %s dev %s", p, want.name()),
				do: func(h *netlink.Handle, dev netlink.Link) error {
					return unless(h.AddrDel(dev, deviceAddress(p)), syscall.EADDRNOTAVAIL, syscall.ENODEV)
				},
			})
		}
	}
	return steps
}

// deviceAddress returns an address that is usable at once, without duplicate address detection.
func deviceAddress(p netip.Prefix) *netlink.Addr {
	const noDAD = 0x02 // IFA_F_NODAD
	a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
	if p.Addr().Is6() {
		a.Flags = noDAD
	} else {
		a.Broadcast = net.IPv4zero // none
	}
	return a
}

// unless returns the error, or nil if it is one of ignored.
func unless(err error, ignored ...syscall.Errno) error {
	if slices.ContainsFunc(ignored, func(errno syscall.Errno) bool { return errors.Is(err, errno) }) {
		return nil
	}
	return err
}

// runSteps makes the changes to the device with a name, in order, up to the first that fails.
func runSteps(c *rtnl.Conn, name string, ls *links, steps []deviceStep) error {
	h, err := c.Handle()
	if err != nil {
		return err
	}
	link, known := ls.named(name)
	for _, step := range steps {
		if !known {
			link, err = c.Link(name)
			if known = err == nil; !known && !errors.Is(err, rtnl.ErrNotFound) {
				return err
			}
		}
		dev := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Name: name, Index: link.Index}}
		if err := step.do(h, dev); err != nil {
			return fmt.Errorf("%s: %w", step.text, err)
		}
		known = known && !step.remakes
	}
	return nil
}

// unwantedDevices returns the sorted names of our devices that are not desired. A device is ours if
// it has our alias. If its name is in own, it is also ours without an alias: a process may have
// been killed before it set the alias.
func unwantedDevices(desired map[string]device, own []string, protocol uint8, ls *links) (names []string) {
	for name, s := range ls.ByName {
		ours := s.Alias == deviceAlias(protocol) || s.Alias == "" && slices.Contains(own, name)
		if _, ok := desired[name]; !ok && slices.Contains(deviceKinds(), s.Kind) && ours {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// deviceStore has the desired devices. The kernel's devices are in kernelView.links.
type deviceStore struct {
	desired map[string]device
	dirty   bool
	// own are the names of devices that are ours even if they have no alias.
	own []string
}

// change adds a device to the desired state or replaces it, or removes it if remove is set.
func (s *deviceStore) change(d device, remove bool) {
	old, had := s.desired[d.name()]
	if remove {
		delete(s.desired, d.name())
		s.dirty = s.dirty || had
		return
	}
	s.dirty = s.dirty || !had || !sameDevice(old, d)
	s.desired[d.name()] = d
}

func (s *deviceStore) has(name string) bool {
	_, ok := s.desired[name]
	return ok
}
