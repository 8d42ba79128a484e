// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestConnectArguments(t *testing.T) {
	const address = "10.0.0.1:80"
	for _, c := range []struct {
		args   string
		want   connectFlags
		isSCTP bool
		err    string
	}{
		{args: "10.0.0.1:80 --timeout=1s --protocol=tcp"},
		{args: "10.0.0.1:80"},
		{args: "--unknown --protocol tcp"},
		{
			args: "10.0.0.1:80 --timeout=1s --protocol=sctp", isSCTP: true,
			want: connectFlags{destination: address, timeout: time.Second, data: "hostname"},
		},
		{
			args: "--timeout 3s --protocol sctp --sctp-data=x=y 10.0.0.1:80", isSCTP: true,
			want: connectFlags{destination: address, timeout: 3 * time.Second, data: "x=y"},
		},
		{args: "10.0.0.1:80 --protocol=sctp", isSCTP: true, want: connectFlags{destination: address, data: "hostname"}},
		{args: "--protocol=sctp", isSCTP: true, err: "accepts 1 arg(s), received 0"},
		{args: "a b --protocol=sctp", isSCTP: true, err: "accepts 1 arg(s), received 2"},
		{args: "a --protocol=sctp --timeout", isSCTP: true, err: "flag needs an argument: --timeout"},
		{args: "a --protocol=sctp --other=1", isSCTP: true, err: "unknown flag: --other"},
		{args: "a --protocol=sctp --timeout=x", isSCTP: true, err: `invalid argument "x" for "--timeout" flag`},
	} {
		got, isSCTP, err := parseConnect(strings.Fields(c.args))
		if got != c.want || isSCTP != c.isSCTP || !hasError(err, c.err) {
			t.Errorf("%q: got %+v, %v, %v", c.args, got, isSCTP, err)
		}
	}
}

func TestPorterEnvironment(t *testing.T) {
	texts, rest, others, err := splitPorter([]string{"A=1", "SERVE_SCTP_PORT_80=foo", "SERVE_SCTP_PORT_81=a=b"})
	check(t, err)
	if !reflect.DeepEqual(texts, map[uint16]string{80: "foo", 81: "a=b"}) || others || len(rest) != 1 {
		t.Errorf("got %v, %v, %v", texts, rest, others)
	}
	for _, protocol := range []string{"", "TCP_", "UDP_", "TLS_"} {
		other := "SERVE_" + protocol + "PORT_80=x"
		texts, rest, others, err = splitPorter([]string{other})
		check(t, err)
		if len(texts) != 0 || !others || !reflect.DeepEqual(rest, []string{other}) {
			t.Errorf("%s: got %v, %v, %v", other, texts, rest, others)
		}
	}
	if _, _, _, err = splitPorter([]string{"SERVE_SCTP_PORT_65536=x"}); !hasError(err, "SERVE_SCTP_PORT_65536: ") {
		t.Errorf("got %v", err)
	}
}

func TestNetexecArguments(t *testing.T) {
	for _, c := range []struct {
		args, rest string
		port       int
		err        string
	}{
		{args: "--http-port=80 --udp-port 81", rest: "--http-port=80 --udp-port 81", port: -1},
		{args: "--http-port=80 --sctp-port 82 --udp-port=81", rest: "--http-port=80 --udp-port=81", port: 82},
		{args: "--sctp-port=82 --sctp-port=-1", port: -1},
		{args: "--sctp-port", err: "flag needs an argument"},
		{args: "--sctp-port=65536", err: "invalid argument"},
	} {
		port, rest, err := splitNetexec(strings.Fields(c.args))
		if port != c.port || strings.Join(rest, " ") != c.rest || !hasError(err, c.err) {
			t.Errorf("%q: got %d, %q, %v", c.args, port, rest, err)
		}
	}
}

func TestNetexecCommands(t *testing.T) {
	handle := netexecHandler("pod-1", 82)
	client := netip.MustParseAddrPort("[2001:db8::1]:4000")
	for text, want := range map[string]string{
		"hostname\n": "pod-1", "HostName": "pod-1", "echo  a b\n": " a b", "clientip": "[2001:db8::1]:4000",
		"serverport": "82", "other": "", "": "",
	} {
		if got := handle(client, text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// hasError reports whether an error starts with a text, or is nil if the text is empty.
func hasError(err error, text string) bool {
	if err == nil || text == "" {
		return err == nil && text == ""
	}
	return strings.HasPrefix(err.Error(), text)
}
