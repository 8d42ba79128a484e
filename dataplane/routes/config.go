// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Defaults of Config.
const (
	// DefaultProtocol is the protocol number that marks our routes and neighbour entries. The list
	// of route protocols of iproute2 has no name for this number, and routing daemons use numbers
	// up to 199.
	DefaultProtocol = 219
	// DefaultTable is the main routing table.
	DefaultTable = 254
	// DefaultVNI and DefaultPort are the VXLAN network identifier and UDP port.
	DefaultVNI  = 4096
	DefaultPort = 4789
	// DefaultDevice4 and DefaultDevice6 are the names of the VXLAN devices.
	DefaultDevice4 = "vxlan.way"
	DefaultDevice6 = "vxlan6.way"
	// DefaultIPIPDevice is the name of the IP-in-IP device.
	DefaultIPIPDevice = "ipip.way"
)

// tableLocal is the kernel's own table of the host's addresses.
const tableLocal = 255

// firstFreeProtocol is the least protocol number that the kernel does not use itself.
const firstFreeProtocol = 5

// Config configures a Dataplane. The zero value has the defaults.
type Config struct {
	// NetNS is the file descriptor of the network namespace to work in. It must stay open for as
	// long as the Dataplane is used. 0 means the program's own namespace. CAP_NET_ADMIN is always
	// needed; another namespace needs CAP_SYS_ADMIN as well.
	NetNS int
	// Protocol is the number that marks our routes and neighbour entries in the kernel: 5 to 255.
	// No other process on the node may use the number. 0 means DefaultProtocol.
	Protocol uint8
	// Tables are the routing tables. Each route is added to all of them. A VRF has a table of its
	// own, and packets that come in by an interface of the VRF are routed by that table alone. If
	// workloads are to be reached from a VRF, list its table here. Nil means DefaultTable. Each may
	// be listed once. Tables 0 and 255 are the kernel's, and not allowed.
	Tables []uint32
	// Parent is the interface, or its VRF, by which encapsulated packets of VXLAN and IP-in-IP
	// devices leave. Empty means that routing decides. Parent does not limit from where
	// encapsulated packets are accepted.
	Parent string
	// Metric of all routes. If it is 0, the kernel uses its default: metric 0 for IPv4, and 1024
	// for IPv6.
	Metric uint32
	// NoDirect means that no routes to blocks of other nodes are added, except through tunnels. Set
	// it if another process adds the direct routes, such as a routing daemon.
	NoDirect bool
	// VXLAN has the parameters of VXLAN devices. A device is made when the node has a tunnel
	// address.
	VXLAN VXLANConfig
	// IPIP has the parameters of the IP-in-IP device. The device is made when the node has a tunnel
	// address for IP in IP.
	IPIP IPIPConfig
	// Gateways are addresses such as 169.254.1.1 that workloads have as their default gateway. The
	// host answers ARP and NDP requests for them on every endpoint's interface. See Proxy for what
	// the kernel needs for that. This package also sets proxy_ndp for IPv6 gateways.
	Gateways []netip.Addr
	// Bridges are the names of bridges whose ports are the interfaces of workloads, as in
	// render.Config.Bridges. If an endpoint's interface is a port of such a bridge, the route of
	// the bridge's subnet leads to the workload. Then this package adds no route, neighbour entry,
	// proxy entry or setting for the endpoint, and the endpoint is not at fault. It adds them once
	// the interface leaves the bridge. The route of the subnet, and forwarding and rp_filter of the
	// bridge, are the administrator's task. Empty means none.
	Bridges []string
	// UnknownRouteTimeout is for routes with our protocol that no known workload needs: a CNI
	// plugin may have added one before the workload is known. If such a route has no gateway, it
	// stays for this time after its interface was first seen. Then Watch or the next Apply removes
	// it. A route with a gateway is removed at once. 0 means that all are removed at once.
	UnknownRouteTimeout time.Duration
	// ForwardAllIPv4 sets net.ipv4.conf.all.forwarding. The kernel then forwards IPv4 packets from
	// all interfaces, including uplinks.
	ForwardAllIPv4 bool
	// ForwardAllIPv6 sets net.ipv6.conf.all.forwarding. Without that sysctl the kernel forwards no
	// IPv6 packets. The sysctl also changes how all of the node's interfaces treat router
	// advertisements.
	ForwardAllIPv6 bool
	// Sysctls to set on every endpoint's interface, besides forwarding.
	Sysctls []Sysctl
	// SysctlFile is the path of a file that keeps the former values of sysctls; see
	// KeeperConfig.SysctlFile.
	SysctlFile string
	// Logger for warnings and information. nil discards.
	Logger *slog.Logger
}

// VXLANConfig has the parameters of VXLAN devices. The zero value has the defaults.
type VXLANConfig struct {
	// Device4 and Device6 are the names of the devices that carry IPv4 and IPv6. Empty means
	// DefaultDevice4 and DefaultDevice6.
	Device4, Device6 string
	// VNI is the network identifier, the same on all nodes: 1 to 16777215. 0 means DefaultVNI.
	VNI uint32
	// Port is the UDP port, the same on all nodes. 0 means DefaultPort.
	Port uint16
	// MTU of the devices, in bytes. 0 means the default of VXLAN.MTU.
	MTU uint32
}

// IPIPConfig has the parameters of the IP-in-IP device. The zero value has the defaults.
type IPIPConfig struct {
	// Device is the name of the device. Empty means DefaultIPIPDevice. "tunl0" is not allowed,
	// because it is the kernel's own.
	Device string
	// MTU of the device, in bytes. 0 means the default of IPIP.MTU.
	MTU uint32
}

// Sysctl is a setting of an interface, under net.ipv4.conf or net.ipv6.conf.
type Sysctl struct {
	// Family is 4 or 6.
	Family int
	// Name of the setting, as in "rp_filter".
	Name string
	// Value as the kernel prints it.
	Value string
}

func (c Config) withDefaults() Config {
	c.Protocol = cmp.Or(c.Protocol, DefaultProtocol)
	if len(c.Tables) == 0 {
		c.Tables = []uint32{DefaultTable}
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	v := &c.VXLAN
	v.Device4 = cmp.Or(v.Device4, DefaultDevice4)
	v.Device6 = cmp.Or(v.Device6, DefaultDevice6)
	v.VNI = cmp.Or(v.VNI, DefaultVNI)
	v.Port = cmp.Or(v.Port, DefaultPort)
	c.IPIP.Device = cmp.Or(c.IPIP.Device, DefaultIPIPDevice)
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Parent != "" && !validInterface(c.Parent) {
		errs = append(errs, fmt.Errorf("routes: Config.Parent: %q is not an interface name", c.Parent))
	}
	for i, a := range c.Gateways {
		if !workloadAddr(a.Unmap()) {
			errs = append(errs, fmt.Errorf("routes: Config.Gateways[%d]: %s is not an address of a host", i, a))
		}
	}
	errs = append(errs,
		validateKeeping("Config", c.NetNS, c.Protocol, c.UnknownRouteTimeout), validateTables("Config", c.Tables))
	return errors.Join(append(errs, c.validateDevices(), c.validateBridges(), c.validateSysctls())...)
}

// validateKeeping checks what Config and KeeperConfig have in common. owner is the name of the
// type, for errors.
func validateKeeping(owner string, namespace int, protocol uint8, unknownRoutes time.Duration) error {
	var errs []error
	if namespace < 0 {
		errs = append(errs, fmt.Errorf("routes: %s.NetNS: %d is not a file descriptor", owner, namespace))
	}
	if protocol < firstFreeProtocol {
		errs = append(errs, fmt.Errorf("routes: %s.Protocol: %d is the kernel's or an administrator's",
			owner, protocol))
	}
	if unknownRoutes < 0 {
		errs = append(errs, fmt.Errorf("routes: %s.UnknownRouteTimeout: %s is negative", owner, unknownRoutes))
	}
	return errors.Join(errs...)
}

func (c Config) validateDevices() error {
	var errs []error
	names := c.devices()
	for i, field := range []string{"VXLAN.Device4", "VXLAN.Device6", "IPIP.Device"} {
		switch {
		case !validInterface(names[i]):
			errs = append(errs, fmt.Errorf("routes: Config.%s: %q is not an interface name", field, names[i]))
		case slices.Contains(names[:i], names[i]):
			errs = append(errs, fmt.Errorf("routes: Config.%s: %q is the name of another device", field, names[i]))
		}
	}
	if c.IPIP.Device == fallbackIPIP {
		errs = append(errs, fmt.Errorf("routes: Config.IPIP.Device: %s is the kernel's own", fallbackIPIP))
	}
	for field, mtu := range map[string]uint32{"VXLAN.MTU": c.VXLAN.MTU, "IPIP.MTU": c.IPIP.MTU} {
		if mtu != 0 && (mtu < minMTU || mtu > maxMTU) {
			errs = append(errs, fmt.Errorf("routes: Config.%s: %d is not from %d to %d", field, mtu, minMTU, maxMTU))
		}
	}
	if c.VXLAN.VNI > maxVNI {
		errs = append(errs, fmt.Errorf("routes: Config.VXLAN.VNI: %d is more than %d", c.VXLAN.VNI, maxVNI))
	}
	return errors.Join(errs...)
}

func (c Config) validateSysctls() error {
	var errs []error
	for i, s := range c.Sysctls {
		if s.Family != 4 && s.Family != 6 {
			errs = append(errs, fmt.Errorf("routes: Config.Sysctls[%d].Family: %d is neither 4 nor 6", i, s.Family))
		}
		if s.Name == "" || strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			errs = append(errs, fmt.Errorf("routes: Config.Sysctls[%d].Name: %q is not a sysctl name", i, s.Name))
		}
		if s.Value == "" || strings.ContainsAny(s.Value, "\n\x00") {
			errs = append(errs, fmt.Errorf("routes: Config.Sysctls[%d].Value: %q is not a sysctl value", i, s.Value))
		}
	}
	return errors.Join(errs...)
}

// settings returns the sysctls that the interface of an endpoint must have.
func (c *Config) settings(ep *endpoint) (settings []Setting) {
	if ep.iface == "" {
		return nil
	}
	set := func(family int, name, value string) {
		path := fmt.Sprintf("net/ipv%d/conf/%s/%s", family, ep.iface, name)
		settings = append(settings, Setting{Path: path, Value: value, Interface: ep.iface})
	}
	four, six := false, false
	for _, prefix := range ep.prefixes {
		four, six = four || prefix.Addr().Is4(), six || prefix.Addr().Is6()
	}
	for _, f := range []struct {
		family   int
		has, all bool
	}{{4, four, c.ForwardAllIPv4}, {6, six, c.ForwardAllIPv6}} {
		if f.has {
			set(f.family, "forwarding", "1")
		}
		if f.has && f.all {
			settings = append(settings, Setting{
				Path: fmt.Sprintf("net/ipv%d/conf/all/forwarding", f.family), Value: "1",
			})
		}
	}
	for _, g := range c.Gateways {
		family := 4
		if g.Unmap().Is6() {
			family = 6
			set(6, "proxy_ndp", "1")
		}
		path := fmt.Sprintf("net/ipv%d/neigh/%s/proxy_delay", family, ep.iface) // 0.8 s otherwise
		settings = append(settings, Setting{Path: path, Value: "0", Interface: ep.iface})
	}
	for _, s := range c.Sysctls {
		set(s.Family, s.Name, s.Value)
	}
	return settings
}
