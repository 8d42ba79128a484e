// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// protocolSCTP is the IP protocol number of SCTP.
const protocolSCTP = 132

// Types of chunks, and the parameter of INIT-ACK that holds the state cookie.
const (
	chunkData       = 0
	chunkInit       = 1
	chunkInitAck    = 2
	chunkSack       = 3
	chunkAbort      = 6
	chunkCookieEcho = 10
	chunkCookieAck  = 11

	parameterStateCookie = 7
)

const (
	headerLength = 12
	window       = 1 << 16 // the receiver window that INIT, INIT-ACK and SACK report, in bytes
	wholeMessage = 3       // the flags of a DATA chunk that is a complete message
)

var errMalformed = errors.New("malformed SCTP packet")

// packet is an SCTP packet: the common header, without checksum, and its chunks.
type packet struct {
	source, destination uint16
	tag                 uint32 // verification tag
	chunks              []chunk
}

// chunk is one chunk of a packet; value is what follows its length.
type chunk struct {
	kind, flags uint8
	value       []byte
}

// encode returns the packet's bytes with its checksum.
func (p packet) encode() []byte {
	b := make([]byte, headerLength)
	binary.BigEndian.PutUint16(b, p.source)
	binary.BigEndian.PutUint16(b[2:], p.destination)
	binary.BigEndian.PutUint32(b[4:], p.tag)
	for _, c := range p.chunks {
		b = append(b, c.kind, c.flags)
		b = binary.BigEndian.AppendUint16(b, uint16(4+len(c.value)))
		b = append(b, c.value...)
		b = append(b, make([]byte, padding(len(c.value)))...)
	}
	binary.LittleEndian.PutUint32(b[8:], checksum(b))
	return b
}

// decode returns the packet of some bytes. The chunks share memory with b. It returns errMalformed
// if the lengths do not fit or the checksum is wrong.
func decode(b []byte) (packet, error) {
	if len(b) < headerLength || binary.LittleEndian.Uint32(b[8:]) != checksum(b) {
		return packet{}, errMalformed
	}
	p := packet{
		source:      binary.BigEndian.Uint16(b),
		destination: binary.BigEndian.Uint16(b[2:]),
		tag:         binary.BigEndian.Uint32(b[4:]),
	}
	for b = b[headerLength:]; len(b) > 0; {
		if len(b) < 4 {
			return packet{}, errMalformed
		}
		length := int(binary.BigEndian.Uint16(b[2:]))
		if length < 4 || length > len(b) {
			return packet{}, errMalformed
		}
		p.chunks = append(p.chunks, chunk{kind: b[0], flags: b[1], value: b[4:length]})
		b = b[min(length+padding(length), len(b)):]
	}
	return p, nil
}

// find returns the value of the first chunk of a type.
func (p packet) find(kind uint8) ([]byte, bool) {
	for _, c := range p.chunks {
		if c.kind == kind {
			return c.value, true
		}
	}
	return nil, false
}

// checksum returns the CRC32c of a packet as if its checksum field were zero.
func checksum(b []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, b[:8])
	sum = crc32.Update(sum, table, make([]byte, 4))
	return crc32.Update(sum, table, b[headerLength:])
}

// padding returns how many bytes a length lacks to a multiple of four.
func padding(length int) int {
	return -length & 3
}

// initiation holds the fields of INIT and INIT-ACK.
type initiation struct {
	tag uint32 // the verification tag of packets to the sender
	tsn uint32 // the sequence number of the sender's first DATA chunk
}

const initiationLength = 16

// chunk returns the chunk of type INIT or INIT-ACK, with the state cookie if there is one.
func (i initiation) chunk(kind uint8, cookie []byte) chunk {
	value := binary.BigEndian.AppendUint32(nil, i.tag)
	value = binary.BigEndian.AppendUint32(value, window)
	value = append(value, 0, 1, 0, 1) // one stream each way
	value = binary.BigEndian.AppendUint32(value, i.tsn)
	if len(cookie) > 0 {
		value = append(value, 0, parameterStateCookie)
		value = binary.BigEndian.AppendUint16(value, uint16(4+len(cookie)))
		value = append(value, cookie...)
	}
	return chunk{kind: kind, value: value}
}

// parseInitiation returns the fields of an INIT or INIT-ACK chunk, and its state cookie or nil.
func parseInitiation(value []byte) (initiation, []byte, error) {
	if len(value) < initiationLength {
		return initiation{}, nil, errMalformed
	}
	i := initiation{tag: binary.BigEndian.Uint32(value), tsn: binary.BigEndian.Uint32(value[12:])}
	if i.tag == 0 {
		return initiation{}, nil, errMalformed
	}
	for b := value[initiationLength:]; len(b) >= 4; {
		length := int(binary.BigEndian.Uint16(b[2:]))
		if length < 4 || length > len(b) {
			return initiation{}, nil, errMalformed
		}
		if binary.BigEndian.Uint16(b) == parameterStateCookie {
			return i, b[4:length], nil
		}
		b = b[min(length+padding(length), len(b)):]
	}
	return i, nil, nil
}

// stateCookie is the cookie that the server sends with INIT-ACK and receives with COOKIE-ECHO, so
// that it needs no state.
type stateCookie struct {
	client, server initiation
}

const stateCookieLength = 16

func (c stateCookie) encode() []byte {
	b := binary.BigEndian.AppendUint32(nil, c.client.tag)
	b = binary.BigEndian.AppendUint32(b, c.client.tsn)
	b = binary.BigEndian.AppendUint32(b, c.server.tag)
	return binary.BigEndian.AppendUint32(b, c.server.tsn)
}

func parseStateCookie(b []byte) (stateCookie, error) {
	if len(b) != stateCookieLength {
		return stateCookie{}, errMalformed
	}
	return stateCookie{
		client: initiation{tag: binary.BigEndian.Uint32(b), tsn: binary.BigEndian.Uint32(b[4:])},
		server: initiation{tag: binary.BigEndian.Uint32(b[8:]), tsn: binary.BigEndian.Uint32(b[12:])},
	}, nil
}

const dataHeaderLength = 12 // sequence number, stream, number within the stream, payload protocol

// dataChunk returns a DATA chunk that is a whole message of stream 0.
func dataChunk(tsn uint32, text string) chunk {
	value := binary.BigEndian.AppendUint32(nil, tsn)
	value = append(value, make([]byte, dataHeaderLength-4)...)
	return chunk{kind: chunkData, flags: wholeMessage, value: append(value, text...)}
}

// parseData returns the sequence number and the text of a DATA chunk.
func parseData(value []byte) (uint32, string, error) {
	if len(value) <= dataHeaderLength {
		return 0, "", errMalformed
	}
	return binary.BigEndian.Uint32(value), string(value[dataHeaderLength:]), nil
}

// sackChunk returns a SACK chunk that acknowledges all data up to a sequence number.
func sackChunk(tsn uint32) chunk {
	value := binary.BigEndian.AppendUint32(nil, tsn)
	value = binary.BigEndian.AppendUint32(value, window)
	return chunk{kind: chunkSack, value: append(value, 0, 0, 0, 0)}
}
