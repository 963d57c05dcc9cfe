// Replaces the package `langsmith`, which @langchain/core imports. The page sends no traces, and its bundle is a
// quarter smaller without the package.

export class Client {}

export class RunTree {}

export const isRunTree = (): boolean => false;

export const isTraceableFunction = (): boolean => false;

export const getCurrentRunTree = (): undefined => undefined;

export const convertToDottedOrderFormat = (): never => {
  throw new Error("This page does no tracing.");
};
