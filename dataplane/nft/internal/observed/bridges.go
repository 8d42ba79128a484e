// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane/interfaces"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/nsthread"
)

// bridges has what was last read of the bridges of the Config.
type bridges struct {
	names []string
	// known is set once the rest was read.
	known     bool
	addresses []netip.Addr // of all bridges, sorted
	calls     map[string]Calls
}

// Calls says which frames between two ports of a bridge pass the hooks of IP, by way of br_netfilter: those of
// IPv4, and those of IPv6.
type Calls struct{ IPv4, IPv6 bool }

// readBridges reads addresses and settings of bridges, if there are bridges.
func (o *Interfaces) readBridges(resync bool) error {
	b := &o.bridges
	if len(b.names) == 0 || b.known && o.watching && !resync {
		return nil
	}
	all, err := o.readInterfaces()
	if err != nil {
		return err
	}
	if b.calls, err = o.readCalls(); err != nil {
		return err
	}
	addresses := b.addressesIn(all)
	if !slices.Equal(addresses, b.addresses) {
		o.version++
	}
	b.addresses, b.known = addresses, true
	return nil
}

// bridgesDiffer returns what differs between a snapshot and the bridges as they were last read, or "".
func (o *Interfaces) bridgesDiffer(s *interfaces.Snapshot) string {
	b := &o.bridges
	if !b.known {
		return ""
	}
	if !slices.Equal(b.addresses, b.addressesIn(interfacesOf(s))) {
		return "the addresses of bridges"
	}
	if calls, err := o.readCalls(); err != nil || !maps.Equal(calls, b.calls) {
		return "bridge-nf-call of bridges"
	}
	return ""
}

// addressesIn returns the addresses of the bridges, sorted.
func (b *bridges) addressesIn(all map[string]render.Interface) (out []netip.Addr) {
	for _, name := range b.names {
		out = append(out, all[name].Addresses...)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// BridgeAddresses returns the addresses that the bridges of the Config had when they were last read. The caller must
// not change them.
func (o *Interfaces) BridgeAddresses() []netip.Addr {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bridges.addresses
}

// BridgeCalls returns which frames between the ports of a bridge pass the hooks of IP, as it was last read.
func (o *Interfaces) BridgeCalls(bridge string) Calls {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bridges.calls[bridge]
}

// readCalls reads the sysctls of br_netfilter and the attributes of bridges, which add to them. Without br_netfilter
// there are no sysctls, and attributes have no effect.
func (o *Interfaces) readCalls() (map[string]Calls, error) {
	var all, loaded Calls
	read := func() (err error) {
		if all.IPv4, loaded.IPv4, err = call("iptables"); err != nil {
			return err
		}
		all.IPv6, loaded.IPv6, err = call("ip6tables")
		return err
	}
	var err error
	if o.namespace == 0 {
		err = read()
	} else {
		err = nsthread.In(o.namespace, read)
	}
	if err != nil {
		return nil, fmt.Errorf("read bridge-nf-call: %w", err)
	}
	calls := map[string]Calls{}
	for _, name := range o.bridges.names {
		link, err := o.link(name)
		if err != nil {
			return nil, err
		}
		calls[name] = Calls{
			IPv4: all.IPv4 || loaded.IPv4 && link.CallIPv4, IPv6: all.IPv6 || loaded.IPv6 && link.CallIPv6,
		}
	}
	return calls, nil
}

// call reads one of the sysctls of the thread's namespace. exists is false without br_netfilter.
func call(name string) (on, exists bool, err error) {
	text, err := os.ReadFile("/proc/sys/net/bridge/bridge-nf-call-" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	return strings.TrimSpace(string(text)) != "0", err == nil, err
}
