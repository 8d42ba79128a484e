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
// All functions may be called from any goroutine. After Encode, the event and the message share
// memory: strings, labels, and lists of profiles. After Decode, they share strings and labels. So
// the caller must change neither the event nor the message.
//
// # Errors
//
// If a message cannot express a value of an event, Encode returns an error: a rule without that
// value could match more packets. Encode also returns an error if a set has a member that Decode
// would refuse. Decode returns an error for a message that the protocol forbids a server to send.
// Errors name the object and the field, as in "codec: policy Policy/shop/web:
// ingress[3].source.nets[0]: prefix length 40 of an IPv4 address".
package codec
