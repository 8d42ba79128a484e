// SPDX-License-Identifier: Apache-2.0

// Package codec translates events and errors between package dataplane and the messages of the wire
// protocol.
//
// # Usage
//
//	message, err := codec.Encode(event)
//	event, err := codec.Decode(message)
//
//	list := codec.EncodeStatus(dp.Apply(ctx, batch))
//	err := codec.DecodeStatus(list)
//
// # Concurrency
//
// All functions may be called from any goroutine. Encode shares strings, lists of profiles and
// labels of the event with the message, and Decode shares strings and labels of the message with
// the event: nobody may change either.
//
// # Errors
//
// Encode returns an error for a value that a message cannot express, because a rule without that
// value could match more packets. It also returns an error for a member of a set that Decode would
// refuse. Decode returns an error for a message that a server must not send. Errors name the object
// and the field, as in "codec: policy Policy/shop/web: ingress[3].source.nets[0]: prefix length 40
// of an IPv4 address".
package codec
