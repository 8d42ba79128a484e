// SPDX-License-Identifier: Apache-2.0

package worldtext

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// fields are the keys and values of a line. Flags have the value "yes".
type fields struct {
	values map[string]string
	order  *float64
}

func parseFields(words []string) (fields, error) {
	f := fields{values: map[string]string{}}
	for i := 0; i < len(words); i++ {
		switch word := words[i]; word {
		case "staged", "always", "down", "forward", "untracked", "prednat", "nat", "disabled":
			f.values[word] = "yes"
		default:
			if i++; i == len(words) {
				return f, fmt.Errorf("%s has no value", word)
			}
			f.values[word] = words[i]
		}
	}
	if s := f.get("order"); s != "" {
		order, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return f, err
		}
		f.order = &order
	}
	return f, nil
}

func (f fields) get(key string) string { return f.values[key] }

func (f fields) has(key string) bool { return f.get(key) != "" }

func (f fields) list(key string) []string {
	if !f.has(key) {
		return nil
	}
	return strings.Split(f.get(key), ",")
}

func (f fields) labels() map[string]string {
	out := map[string]string{}
	for _, pair := range f.list("labels") {
		k, v, _ := strings.Cut(pair, "=")
		out[k] = v
	}
	return out
}

func parseNets(list []string) (policy.Nets, error) {
	var out policy.Nets
	for _, s := range list {
		net, err := policy.ParseNet(s)
		if err != nil {
			return nil, err
		}
		out = append(out, net)
	}
	return out, nil
}

func parsePorts(list []string) ([]policy.Port, error) {
	var out []policy.Port
	for _, s := range list {
		if s == "0" { // for what is not valid
			out = append(out, policy.PortNumber(0))
			continue
		}
		port, err := policy.ParsePort(s)
		if err != nil {
			return nil, err
		}
		out = append(out, port)
	}
	return out, nil
}

func parseAddrs(list []string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, s := range list {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return nil, err
		}
		out = append(out, addr)
	}
	return out, nil
}

// parseEndpointPorts reads ports as in "http=TCP:80".
func parseEndpointPorts(list []string) ([]policy.EndpointPort, error) {
	var out []policy.EndpointPort
	for _, s := range list {
		name, rest, _ := strings.Cut(s, "=")
		port, err := parseProtocolPort(rest)
		if err != nil {
			return nil, err
		}
		port.Name = name
		out = append(out, port)
	}
	return out, nil
}

// parseProtocolPort reads "TCP:80".
func parseProtocolPort(s string) (policy.EndpointPort, error) {
	proto, number, _ := strings.Cut(s, ":")
	p, err := policy.ParseProtocol(proto)
	if err != nil {
		return policy.EndpointPort{}, err
	}
	n, err := strconv.ParseUint(number, 10, 16)
	return policy.EndpointPort{Protocol: p, Port: uint16(n)}, err
}
