// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// sample is a packet of every chunk that has fields, with a text whose length is no multiple of
// four.
func sample() packet {
	cookie := stateCookie{client: initiation{tag: 1, tsn: 2}, server: initiation{tag: 3, tsn: 4}}
	return packet{source: 40000, destination: 80, tag: 0xdeadbeef, chunks: []chunk{
		initiation{tag: 7, tsn: 8}.chunk(chunkInitAck, cookie.encode()),
		{kind: chunkCookieEcho, value: cookie.encode()},
		sackChunk(9),
		dataChunk(10, "hello"),
		{kind: chunkAbort, value: []byte{}},
	}}
}

func TestDecodedPacketEqualsEncoded(t *testing.T) {
	got, err := decode(sample().encode())
	check(t, err)
	if !reflect.DeepEqual(got, sample()) {
		t.Fatalf("got %+v, want %+v", got, sample())
	}
	value, _ := got.find(chunkInitAck)
	init, encoded, err := parseInitiation(value)
	check(t, err)
	cookie, err := parseStateCookie(encoded)
	check(t, err)
	if init != (initiation{tag: 7, tsn: 8}) || cookie.server != (initiation{tag: 3, tsn: 4}) {
		t.Fatalf("got %+v and %+v", init, cookie)
	}
	value, _ = got.find(chunkData)
	tsn, text, err := parseData(value)
	check(t, err)
	if tsn != 10 || text != "hello" {
		t.Fatalf("got %d %q", tsn, text)
	}
}

// TestChecksumOfKnownBytes uses the sum of 32 zero bytes, of RFC 3720.
func TestChecksumOfKnownBytes(t *testing.T) {
	if got := checksum(make([]byte, 32)); got != 0x8a9136aa {
		t.Fatalf("got %#x", got)
	}
	b := make([]byte, 32)
	b[9] = 0xff // in the checksum field: must not count
	if got := checksum(b); got != 0x8a9136aa {
		t.Fatalf("got %#x with a checksum that is set", got)
	}
}

func TestEveryChangedBitIsNoticed(t *testing.T) {
	original := sample().encode()
	for bit := range len(original) * 8 {
		b := bytes.Clone(original)
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := decode(b); !errors.Is(err, errMalformed) {
			t.Fatalf("bit %d: got %v", bit, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sample().encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= headerLength { // otherwise hardly an input passes
			copy(b[8:], packetChecksum(b))
		}
		p, err := decode(b)
		if err != nil {
			return
		}
		for _, c := range p.chunks {
			_, _, _ = parseInitiation(c.value)
			_, _, _ = parseData(c.value)
		}
		again, err := decode(p.encode())
		if err != nil || len(again.chunks) != len(p.chunks) {
			t.Fatalf("%v: %+v became %+v", err, p, again)
		}
	})
}

func packetChecksum(b []byte) []byte {
	sum := checksum(b)
	return []byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
