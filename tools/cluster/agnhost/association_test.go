// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
)

// TestServerChecksTags also tests that a server answers each packet of a client as often as it
// comes.
func TestServerChecksTags(t *testing.T) {
	s := &server{handlers: map[uint16]handler{80: porterHandler("foo")}}
	client := netip.MustParseAddrPort("10.0.0.1:40000")
	own := initiation{tag: 5, tsn: 6}
	init := packet{source: 40000, destination: 80, chunks: []chunk{own.chunk(chunkInit, nil)}}

	ack, ok := s.answer(client, init)
	if !ok || ack.tag != own.tag || ack.source != 80 || ack.destination != 40000 {
		t.Fatalf("INIT: got %v %+v", ok, ack)
	}
	value, _ := ack.find(chunkInitAck)
	server, cookie, err := parseInitiation(value)
	check(t, err)

	echo := packet{source: 40000, destination: 80, tag: server.tag, chunks: []chunk{
		{kind: chunkCookieEcho, value: cookie}, dataChunk(own.tsn, "hostname\n"),
	}}
	for range 2 {
		answer, ok := s.answer(client, echo)
		value, _ := answer.find(chunkData)
		tsn, text, err := parseData(value)
		if !ok || err != nil || answer.tag != own.tag || tsn != server.tsn || text != "foo" {
			t.Fatalf("COOKIE-ECHO: got %v %+v", ok, answer)
		}
	}

	withTag, two, otherTag, elsewhere := init, init, echo, echo
	withTag.tag = 1
	two.chunks = append(two.chunks, chunk{kind: chunkAbort})
	otherTag.tag++
	elsewhere.destination = 81
	abort := packet{source: 40000, destination: 80, tag: server.tag, chunks: []chunk{{kind: chunkAbort}}}
	for name, p := range map[string]packet{
		"INIT with a tag": withTag, "INIT with another chunk": two, "COOKIE-ECHO with another tag": otherTag,
		"COOKIE-ECHO to another port": elsewhere, "ABORT": abort, "no chunk": {source: 40000, destination: 80},
	} {
		if answer, ok := s.answer(client, p); ok {
			t.Errorf("%s: got %+v", name, answer)
		}
	}
}

// TestClientIgnoresPacketsOfOthers answers INIT by ABORT with a wrong tag, port or checksum, and
// then by the right one.
func TestClientIgnoresPacketsOfOthers(t *testing.T) {
	n := newNamespace(t)
	n.do(t, func() error {
		conn, err := net.ListenIP("ip4:132", &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return err
		}
		defer conn.Close()
		go func() {
			buffer := make([]byte, maxPacket)
			size, peer, err := conn.ReadFromIP(buffer)
			if err != nil {
				return
			}
			request, _ := decode(buffer[:size])
			value, _ := request.find(chunkInit)
			init, _, _ := parseInitiation(value)
			// The wrong packets have chunks for which the client would go on.
			ack := initiation{tag: 1}.chunk(chunkInitAck, []byte("cookie"))
			right := packet{source: request.destination, destination: request.source, tag: init.tag}
			right.chunks = []chunk{ack}
			wrongTag, wrongSource, wrongDestination := right, right, right
			wrongTag.tag++
			wrongSource.source++
			wrongDestination.destination++
			wrongSum := right.encode()
			wrongSum[8]++
			right.chunks = []chunk{{kind: chunkAbort}}
			for _, b := range [][]byte{
				wrongTag.encode(), wrongSource.encode(), wrongDestination.encode(), wrongSum, right.encode(),
			} {
				_, _ = conn.WriteToIP(b, peer)
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		err = exchange(ctx, netip.MustParseAddrPort("127.0.0.1:80"), "x")
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v", err)
		}
		return nil
	})
}
