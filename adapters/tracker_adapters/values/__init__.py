"""Values as artifacts take them: arrays, plain values, pictures, frames."""
