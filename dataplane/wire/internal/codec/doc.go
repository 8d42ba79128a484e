// SPDX-License-Identifier: Apache-2.0

// Package codec translates events and errors between package dataplane and the messages of the wire protocol.
//
// # Usage
//
//	message, err := codec.Encode(event)
//	event, err := codec.Decode(message)
//
// # Concurrency
//
// All functions may be called from any goroutine. A decoded event shares no memory with its message, except texts.
//
// # Errors
//
// Decode accepts only what a server may send: known enums, addresses and lengths that exist, no host bits. Errors name
// the event and the field, as "codec: policy_update: ingress[3].source.nets[0]: length 40 of an IPv4 prefix".
package codec
