// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"encoding/binary"
	"math/bits"

	"github.com/google/nftables/userdata"
)

const (
	// hashType is the number of our entry in a rule's userdata. nft ignores entries that it does
	// not know.
	hashType = userdata.Type(0xd7)
	hashSize = 8
	hashSeed = 0x9e3779b97f4a7c15
	hashStep = 0xff51afd7ed558ccd
)

// mix adds bytes to a hash. The hash need not be cryptographic, because whoever can forge a rule's
// hash can write to the table anyway.
func mix(h uint64, b []byte) uint64 {
	h ^= uint64(len(b))
	for ; len(b) >= 8; b = b[8:] {
		h = bits.RotateLeft64((h^binary.LittleEndian.Uint64(b))*hashStep, 29)
	}
	for _, c := range b {
		h = (h ^ uint64(c)) * hashStep
	}
	return h ^ h>>32
}

// appendHash appends an entry with the hash to a rule's userdata.
func appendHash(data []byte, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(append(data, byte(hashType), hashSize), hash)
}
