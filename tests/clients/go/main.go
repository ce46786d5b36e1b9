// Decodes JSON with the types of two generated clients, and encodes what each has read.
//
// A line {"kind": NAME, "body": …} of the input is answered by {"CLIENT": {"body": …} or {"error": …}, …}.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"reflect"
)

type line struct {
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body"`
}

type result struct {
	Body  json.RawMessage `json:"body,omitempty"`
	Error string          `json:"error,omitempty"`
}

func main() {
	input, output := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var given line
		if err := input.Decode(&given); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		results := map[string]result{}
		for client, kind := range kinds[given.Kind] {
			results[client] = decode(kind, given.Body)
		}
		if err := output.Encode(results); err != nil {
			log.Fatal(err)
		}
	}
}

func decode(kind reflect.Type, body []byte) result {
	value := reflect.New(kind)
	if err := json.Unmarshal(body, value.Interface()); err != nil {
		return result{Error: err.Error()}
	}
	encoded, err := json.Marshal(value.Interface())
	if err != nil {
		return result{Error: err.Error()}
	}
	return result{Body: encoded}
}
