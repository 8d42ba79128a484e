// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	servePrefix = "SERVE_"           // of porter's variables; the part up to _PORT_ is the protocol
	sctpPrefix  = "SERVE_SCTP_PORT_" // of those for SCTP
)

// connectFlags are the arguments of "agnhost connect" for SCTP.
type connectFlags struct {
	destination string
	timeout     time.Duration // 0 is over at once, as in the real agnhost
	data        string
}

// parseConnect returns the arguments of "agnhost connect", without that command, and whether they
// are for SCTP. If not, it reports no errors: the real agnhost does.
func parseConnect(args []string) (flags connectFlags, isSCTP bool, err error) {
	values, rest, err := parseFlags(args, "timeout", "protocol", "udp-data", "sctp-data")
	if values["protocol"] != "sctp" {
		return connectFlags{}, false, nil
	}
	if err != nil {
		return connectFlags{}, true, err
	}
	if len(rest) != 1 {
		return connectFlags{}, true, fmt.Errorf("accepts 1 arg(s), received %d", len(rest))
	}
	flags = connectFlags{destination: rest[0], data: "hostname"}
	if data, ok := values["sctp-data"]; ok {
		flags.data = data
	}
	if timeout, ok := values["timeout"]; ok {
		flags.timeout, err = time.ParseDuration(timeout)
		if err != nil {
			return connectFlags{}, true, fmt.Errorf("invalid argument %q for \"--timeout\" flag: %w", timeout, err)
		}
	}
	return flags, true, nil
}

// parseFlags returns the values of the flags that have one of the names, and the other arguments.
// It returns an error, with what it has found, for a flag without value and for other flags.
func parseFlags(args []string, names ...string) (values map[string]string, rest []string, err error) {
	values = map[string]string{}
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "--")
		if !isFlag {
			rest = append(rest, args[i])
			continue
		}
		name, value, hasValue := strings.Cut(name, "=")
		if !slices.Contains(names, name) {
			err = fmt.Errorf("unknown flag: --%s", name)
			continue
		}
		if !hasValue {
			i++
			if i == len(args) {
				return values, rest, fmt.Errorf("flag needs an argument: --%s", name)
			}
			value = args[i]
		}
		values[name] = value
	}
	return values, rest, err
}

// splitPorter returns the ports that porter serves by SCTP, with the text of each, and the
// environment without them. The result others reports whether porter serves other protocols.
func splitPorter(environment []string) (texts map[uint16]string, rest []string, others bool, err error) {
	texts = map[uint16]string{}
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		number, isSCTP := strings.CutPrefix(name, sctpPrefix)
		if !isSCTP {
			rest = append(rest, variable)
			others = others || strings.HasPrefix(name, servePrefix)
			continue
		}
		port, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return nil, nil, false, fmt.Errorf("%s: %w", name, err)
		}
		texts[uint16(port)] = value
	}
	return texts, rest, others, nil
}

// splitNetexec returns the port of the last flag --sctp-port, or -1, and the arguments without
// these flags.
func splitNetexec(args []string) (port int, rest []string, err error) {
	const flag = "--sctp-port"
	port = -1
	for i := 0; i < len(args); i++ {
		name, value, hasValue := strings.Cut(args[i], "=")
		if name != flag {
			rest = append(rest, args[i])
			continue
		}
		if !hasValue {
			i++
			if i == len(args) {
				return 0, nil, fmt.Errorf("flag needs an argument: %s", flag)
			}
			value = args[i]
		}
		if port, err = strconv.Atoi(value); err != nil || port < -1 || port > 1<<16-1 {
			return 0, nil, fmt.Errorf("invalid argument %q for %q flag", value, flag)
		}
	}
	return port, rest, nil
}

// porterHandler answers every message with the same text.
func porterHandler(text string) handler {
	return func(netip.AddrPort, string) string { return text }
}

// netexecHandler answers the commands of netexec's SCTP server.
func netexecHandler(hostname string, port uint16) handler {
	return func(client netip.AddrPort, text string) string {
		text = strings.ToLower(strings.TrimSpace(text))
		switch echo, isEcho := strings.CutPrefix(text, "echo "); {
		case isEcho:
			return echo
		case text == "hostname":
			return hostname
		case text == "clientip":
			return client.String()
		case text == "serverport":
			return strconv.Itoa(int(port))
		default:
			return ""
		}
	}
}
