// In place of the package `langsmith`, which @langchain/core imports: this page sends no traces anywhere, and
// without that package its bundle is a quarter smaller.

export class Client {}

export class RunTree {}

export const isRunTree = (): boolean => false;

export const isTraceableFunction = (): boolean => false;

export const getCurrentRunTree = (): undefined => undefined;

export const convertToDottedOrderFormat = (): never => {
  throw new Error("This page does no tracing.");
};
